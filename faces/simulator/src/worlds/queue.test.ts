/** Queue: no message is lost, and duplicates and dead letters have the right causes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { QueueDocument } from "../scenario/scenario-document.ts";
import { simulate } from "./simulate.ts";

const QUEUE: QueueDocument = { world: "QUEUE", ratePerSecond: 20, work: 20, horizonMs: 20_000 };

describe("queue", () => {
  it("delivers every message once when nothing fails", () => {
    const report = simulate(QUEUE);
    expect(report.succeeded).toBe(report.calls);
    expect([report.duplicateShare, report.deadLetterShare, report.amplification]).toEqual([
      0, 0, 1,
    ]);
  });

  it("loses no message: each is done or a dead letter, whatever fails", () => {
    const share = fc.constantFrom(0, 0.1, 0.5);
    fc.assert(
      fc.property(
        share,
        share,
        fc.constantFrom(0, 1),
        fc.constantFrom(0, 500, 5000),
        fc.integer(),
        (poisonShare, failureRate, crashesPerSecond, commitMs, seed) => {
          const report = simulate(
            { ...QUEUE, poisonShare, failureRate, crashesPerSecond, commitMs, visibilityMs: 2000 },
            { seed },
          );
          expect(report.succeeded + report.lost).toBe(report.calls);
          expect(report.amplification).toBeLessThanOrEqual(5);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("interrupts only the run of the worker that crashes", () => {
    // One worker, a second per message, a crash every 200 ms: hardly any run can end, and never
    // two.
    for (let seed = 1; seed <= 5; seed++) {
      const { series } = simulate(
        {
          ...QUEUE,
          workers: 1,
          ratePerSecond: 5,
          work: 1000,
          crashesPerSecond: 5,
          maxReceives: 1000,
          horizonMs: 60_000,
        },
        { seed },
      );
      const bins = Math.floor(60_000 / series.binMs);
      const done = series.succeeded.slice(0, bins).reduce((sum, count) => sum + count, 0);
      expect(done).toBeLessThan(10);
    }
  });

  it("counts a message that was done but never committed as a dead letter, not as lost", () => {
    const report = simulate({ ...QUEUE, visibilityMs: 500, commitMs: 10_000, maxReceives: 3 });
    expect(report.deadLetterShare).toBeGreaterThan(0.5);
    expect([report.succeeded, report.lost, report.unfinished]).toEqual([report.calls, 0, 0]);
  });

  it("counts a message that becomes a dead letter during its run as lost, not also as done", () => {
    const report = simulate({ ...QUEUE, visibilityMs: 1, maxReceives: 1 });
    expect([report.succeeded, report.lost, report.unfinished]).toEqual([0, report.calls, 0]);
  });

  it("makes poison messages dead letters after their last receive", () => {
    const report = simulate({ ...QUEUE, poisonShare: 0.05, maxReceives: 3 }, { seed: 4 });
    expect(report.deadLetterShare).toBeGreaterThan(0.02);
    expect(report.deadLetterShare).toBeLessThan(0.09);
    expect(report.verdict).toContain("more than the healthy 1 %");
  });

  it("delivers a message twice if it takes longer than the visibility timeout", () => {
    const slow = { ...QUEUE, workers: 50, work: { kind: "EXPONENTIAL", meanMs: 200 } } as const;
    const short = simulate({ ...slow, visibilityMs: 300 }).duplicateShare ?? 0;
    const long = simulate({ ...slow, visibilityMs: 5000 }).duplicateShare ?? 0;
    expect(short).toBeGreaterThan(0.1);
    expect(long).toBe(0);
  });

  it("does not deliver a message that was settled before it was received again", () => {
    const alone = { ...QUEUE, ratePerSecond: 0.2, workers: 1, work: 1000, visibilityMs: 500 };
    const report = simulate({ ...alone, horizonMs: 600_000 });
    expect(report.calls).toBeGreaterThan(50);
    expect(report.duplicateShare).toBe(0);
  });

  it("limits the number of messages", () => {
    const flood = { ...QUEUE, ratePerSecond: 10_000, horizonMs: 86_400_000 };
    expect(() => simulate(flood)).toThrow("the scenario has over 5000000 messages");
  });

  it("repeats about one commit interval of work after a crash", () => {
    const report = (commitMs: number) =>
      simulate({ ...QUEUE, commitMs, crashesPerSecond: 0.3, horizonMs: 60_000 }).duplicateShare ??
      0;
    expect(report(5000)).toBeGreaterThan(report(500));
    expect(report(0)).toBe(0);
  });
});
