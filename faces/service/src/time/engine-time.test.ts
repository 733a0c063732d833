/** Tests of engine time: it never goes backwards, whatever the wall clock does. */
import { describe, expect, it } from "vitest";
import { EngineTime } from "./engine-time.ts";

const T0 = 1_800_000_000_000;

/** A machine whose wall clock and monotonic clock the test sets. */
function machine() {
  const state = { wall: T0, monotonic: 500 };
  const clock = {
    now: () => state.wall,
    monotonicMs: () => state.monotonic,
    sleep: () => Promise.resolve(),
    alarm: () => () => {},
    endOfTurn: () => {},
  };
  const pass = (ms: number) => {
    state.wall += ms;
    state.monotonic += ms;
  };
  return { state, clock, pass };
}

describe("engine time", () => {
  it("follows the wall clock", () => {
    const { clock, pass } = machine();
    const time = new EngineTime(clock, 0);
    pass(1234.7);
    expect(time.now()).toBe(T0 + 1234);
    expect(time.msUntil(T0 + 1235)).toBeCloseTo(0.3);
  });

  it("catches up if the wall clock was within a millisecond when the anchor was taken", () => {
    const { state, clock } = machine();
    const time = new EngineTime(clock, 0);
    state.wall += 1;
    state.monotonic += 0.2;
    expect(time.now()).toBe(T0);
    expect(time.msUntil(T0 + 3)).toBeCloseTo(2);
    expect(time.now()).toBe(T0 + 1);
    state.wall += 40;
    expect(time.msUntil(T0 + 3)).toBeCloseTo(2);
  });

  it("starts no earlier than the latest stored instant", () => {
    const { clock } = machine();
    expect(new EngineTime(clock, T0 + 86_400_000).now()).toBe(T0 + 86_400_000);
  });

  it.each([3_600_000, -3_600_000, -86_400_000])(
    "ignores a jump of the wall clock by %d ms",
    (jump) => {
      const { clock, state, pass } = machine();
      const time = new EngineTime(clock, 0);
      pass(1000);
      state.wall += jump;
      for (let second = 0; second < 60; second++) {
        pass(1000);
        expect(time.now()).toBe(T0 + 2000 + second * 1000);
      }
      expect(time.skewMs()).toBe(jump);
    },
  );

  it("follows a small forward drift, and never goes backwards", () => {
    const { clock, state, pass } = machine();
    const time = new EngineTime(clock, 0);
    let last = time.now();
    for (let second = 0; second < 120; second++) {
      pass(1000);
      state.wall += second < 60 ? 1 : -2;
      expect(time.now()).toBeGreaterThanOrEqual(last);
      last = time.now();
    }
    expect(last - T0 - 120_000).toBeGreaterThanOrEqual(50);
  });
});
