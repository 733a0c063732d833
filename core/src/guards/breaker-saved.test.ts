/** Tests of saving and restoring a breaker: the same state, at the same instants. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import {
  BREAKER_DEFAULTS,
  type Breaker,
  type BreakerOutcome,
  breakerState,
  createBreaker,
  enterBreaker,
  leaveBreaker,
  openUntil,
  restoreBreaker,
  saveBreaker,
} from "./breaker.ts";

const T0 = 1_700_000_000_000;
const OPTIONS = { ...BREAKER_DEFAULTS, minCalls: 4, windowMs: 1000, halfOpenProbes: 2 };

const throughJson = (breaker: Breaker, now: number) =>
  restoreBreaker(breaker.options, JSON.parse(JSON.stringify(saveBreaker(breaker))), now);

function fail(breaker: Breaker, now: number, times: number): void {
  for (let n = 0; n < times; n++) {
    leaveBreaker(breaker, now, enterBreaker(breaker, now), "failure", 1, () => 0.5);
  }
}

describe("restoring", () => {
  test("a breaker that has just opened stays open until the same instant", () => {
    const breaker = createBreaker(OPTIONS, T0);
    fail(breaker, T0, 4);
    const restored = throughJson(breaker, T0 + 3000);
    expect(openUntil(restored, T0 + 3000)).toBe(T0 + 5000);
    expect(breakerState(restored, T0 + 4999)).toBe("OPEN");
    expect(breakerState(restored, T0 + 5000)).toBe("HALF_OPEN");
  });

  test("counts of the window are kept and expire at the same instants", () => {
    const breaker = createBreaker(OPTIONS, T0);
    fail(breaker, T0, 3);
    const soon = throughJson(breaker, T0 + 899);
    fail(soon, T0 + 899, 1);
    expect(breakerState(soon, T0 + 899)).toBe("OPEN");
    const late = throughJson(breaker, T0 + 1000);
    fail(late, T0 + 1000, 1);
    expect(breakerState(late, T0 + 1000)).toBe("CLOSED");
  });

  test("the restored breaker continues like the saved one, at any point of any history", () => {
    const anyCall = fc.tuple(
      fc.oneof(fc.nat(200), fc.nat(9000)),
      fc.constantFrom<BreakerOutcome>("success", "failure", "ignored"),
      fc.boolean(),
    );
    const anyHistory = fc.array(anyCall, { maxLength: 40 });
    const run = (breaker: Breaker, history: [number, BreakerOutcome, boolean][], from: number) =>
      history.reduce((now, [gapMs, outcome, lost]) => {
        const pass = enterBreaker(breaker, now + gapMs);
        if (pass > 0 && !lost) leaveBreaker(breaker, now + gapMs, pass, outcome, 1, () => 0.3);
        return now + gapMs;
      }, from);
    fc.assert(
      fc.property(anyHistory, anyHistory, (before, after) => {
        const breaker = createBreaker(OPTIONS, T0);
        const now = run(breaker, before, T0);
        const restored = throughJson(breaker, now);
        expect(restored).toEqual({
          ...breaker,
          window: { ...breaker.window, head: 9, counts: restored.window.counts },
        });
        run(breaker, after, now);
        run(restored, after, now);
        expect(saveBreaker(restored)).toEqual(saveBreaker(breaker));
      }),
    );
  });
});

test("garbage is refused by name", () => {
  const saved = saveBreaker(createBreaker(OPTIONS, T0));
  expectGarbageRefused("breaker", saved, (value) => restoreBreaker(OPTIONS, value, T0));
  const half = { ...saved, generation: 0 };
  expect(() => restoreBreaker(OPTIONS, half, T0)).toThrow(
    "breaker.generation must be a whole number",
  );
});
