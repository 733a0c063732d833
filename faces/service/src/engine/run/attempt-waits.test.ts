/** Tests of the waits of an attempt after it was due. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MIN_WAIT_MS, NO_WAITS } from "../../model/task.ts";
import type { Hold } from "../destination/lane-hold.ts";
import { waitsOf } from "./attempt-waits.ts";

const held = (by: Hold["by"], since: number, before?: Hold): Hold => ({ by, since, before });

describe("the waits of an attempt", () => {
  it("are none, without a new object, if it started on time", () => {
    const times = { dueAt: 1000, claimedAt: 995, startedAt: 1000 + MIN_WAIT_MS - 1 };
    expect(waitsOf(undefined, times)).toBe(NO_WAITS);
    expect(waitsOf(held("rate", 900), times)).toBe(NO_WAITS);
  });

  it("name each guard that held it, for as long as it held, and the rest is late", () => {
    const hold = held("concurrency", 9000, held("circuit-open", 2000, held("pause", 100)));
    const times = { dueAt: 1000, claimedAt: 9200, startedAt: 9700 };
    expect(waitsOf(hold, times)).toEqual([
      { cause: "pause", sinceAt: 1000, durationMs: 1000 },
      { cause: "circuit-open", sinceAt: 2000, durationMs: 7000 },
      { cause: "concurrency", sinceAt: 9000, durationMs: 200 },
      { cause: "late", sinceAt: 9200, durationMs: 500 },
    ]);
  });

  it("are late as a whole if no guard held it, for example after the service was down", () => {
    const times = { dueAt: 1000, claimedAt: 8000, startedAt: 9000 };
    expect(waitsOf(undefined, times)).toEqual([{ cause: "late", sinceAt: 1000, durationMs: 8000 }]);
  });

  it("never overlap, are in order, and lie between the due instant and the start", () => {
    const causes = fc.constantFrom<Hold["by"]>("rate", "pause", "circuit-open");
    const steps = fc.array(fc.tuple(causes, fc.nat(2000)), { maxLength: 8 });
    fc.assert(
      fc.property(
        steps,
        fc.nat(5000),
        fc.nat(5000),
        fc.nat(1000),
        (list, dueAt, heldMs, lateMs) => {
          let at = 0;
          let hold: Hold | undefined;
          for (const [by, ms] of list) {
            at += ms;
            hold = held(by, at, hold);
          }
          const claimedAt = Math.max(at, dueAt) + heldMs;
          const startedAt = claimedAt + lateMs;
          let endAt = dueAt;
          for (const wait of waitsOf(hold, { dueAt, claimedAt, startedAt })) {
            expect(wait.sinceAt).toBeGreaterThanOrEqual(endAt);
            expect(wait.durationMs).toBeGreaterThanOrEqual(MIN_WAIT_MS);
            endAt = wait.sinceAt + wait.durationMs;
          }
          expect(endAt).toBeLessThanOrEqual(startedAt);
        },
      ),
    );
  });
});
