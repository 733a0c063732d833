/** Tests that every change of a limit is recorded once, with its reason, in bounded memory. */
import {
  classifyOutcome,
  type Outcome,
  type Permit,
  rampUp,
  resolvePolicy,
  SUCCESS,
  seededRandom,
  statusOutcome,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import { T0, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime, MAX_CHANGES } from "./destination-runtime.ts";

const POLICY = resolvePolicy({});
const key = { tenantId: TENANT, name: "d" };

function setup(concurrency: object = { algorithm: "AIMD", max: 64 }) {
  const destination = new DestinationRuntime(seededRandom("d"), key, T0, undefined);
  const configure = (given: object | false, now: number) => {
    const { version } = destination.row;
    // Only the limit is under test.
    const document = JSON.stringify({ breaker: false, retryAfterGate: false, concurrency: given });
    const row = { ...blankDestination(TENANT, "d"), version: version + 1, document };
    destination.adopt(row, now);
  };
  configure(concurrency, T0);
  /** Ends `count` attempts that were in flight together. */
  const end = (outcome: Outcome, now: number, count = 1, durationMs = 5) => {
    const permits = Array.from({ length: count }, () => destination.takePermit(false, now));
    for (const permit of permits.filter((one) => one !== undefined)) {
      destination.recordOutcome(
        permit as Permit,
        now + durationMs,
        POLICY,
        outcome,
        classifyOutcome(POLICY, outcome),
        durationMs,
      );
    }
  };
  const shown = () =>
    destination.limits.changes.map(({ from, to, cause, detail }) => ({ from, to, cause, detail }));
  return { destination, end, shown, configure };
}

describe("the history of a limit", () => {
  it("says why it was cut and why it grew", () => {
    const { end, shown, destination } = setup({ algorithm: "AIMD", max: 20 });
    end(SUCCESS, T0, 20);
    // A round of 20 calls: the last of them succeed.
    end(statusOutcome(503), T0 + 1000, 15);
    end(SUCCESS, T0 + 1100, 5);
    const low = Math.floor(20 * (1 - 0.75 ** 2 / 2));
    expect(shown()).toEqual([{ from: 20, to: low, cause: "overload", detail: "503" }]);
    for (let n = 0; n < 3; n++) end(SUCCESS, T0 + 2000 + 10 * n, 14);
    const high = shown()[1]?.to ?? 0;
    expect(shown()[1]).toEqual({ from: low, to: high, cause: "successes", detail: null });
    expect(high).toBeGreaterThan(low);
    expect(destination.limits.changes[1]?.steps).toBe(high - low);
  });

  it("shows a restart at 1 and the ramp to the old limit", () => {
    const { destination, end, shown } = setup({ algorithm: "FIXED", max: 4 });
    end(SUCCESS, T0);
    rampUp(destination.admission, T0);
    for (let n = 1; n <= 4; n++) end(SUCCESS, T0 + n * 1000);
    expect(shown()).toEqual([
      { from: 4, to: 1, cause: "ramp-started", detail: null },
      { from: 1, to: 4, cause: "ramp", detail: null },
    ]);
  });

  it("names another document, and starts again after a document without a limit", () => {
    const { end, shown, configure } = setup({ algorithm: "FIXED", max: 4 });
    end(SUCCESS, T0);
    configure({ algorithm: "FIXED", max: 9 }, T0 + 1000);
    end(SUCCESS, T0 + 1000);
    expect(shown()).toEqual([{ from: 4, to: 9, cause: "document", detail: null }]);
    configure(false, T0 + 2000);
    end(SUCCESS, T0 + 2000);
    configure({ algorithm: "FIXED", max: 5 }, T0 + 3000);
    end(SUCCESS, T0 + 3000);
    expect(shown()).toHaveLength(1);
  });

  it("is a chain from limit to limit, in order, and bounded", () => {
    const outcomes = fc.constantFrom(SUCCESS, statusOutcome(503), statusOutcome(429));
    const steps = fc.array(fc.tuple(outcomes, fc.nat(30_000), fc.integer({ min: 1, max: 30 })), {
      maxLength: 300,
    });
    fc.assert(
      fc.property(steps, fc.constantFrom("AIMD", "GRADIENT", "VEGAS"), (list, algorithm) => {
        const { destination, end } = setup({ algorithm, max: 40 });
        let now = T0;
        for (const [outcome, stepMs, count] of list) {
          // After the last attempt has ended.
          now += 60 + stepMs;
          end(outcome, now, count, 1 + (stepMs % 50));
        }
        const { changes } = destination.limits;
        expect(changes.length).toBeLessThanOrEqual(MAX_CHANGES);
        for (const [index, change] of changes.entries()) {
          expect(change.at).toBeGreaterThanOrEqual(change.sinceAt);
          const next = changes[index + 1];
          if (next === undefined) continue;
          expect(next.from).toBe(change.to);
          expect(next.sinceAt).toBeGreaterThanOrEqual(change.at);
        }
      }),
      { numRuns: 60 },
    );
  });
});
