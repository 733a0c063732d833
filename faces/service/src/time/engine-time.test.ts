/**
 * Tests of engine time: it never goes backwards nor ahead of the wall clock, whatever that does.
 * Tests that a node follows the clock of its store, and is never ahead of it.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EngineTime, StoreClock } from "./engine-time.ts";

const T0 = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

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
  /** Passes time in steps of a second, and reads the engine time after each. */
  const read = (time: EngineTime, seconds: number) =>
    Array.from({ length: seconds }, () => {
      pass(1000);
      return time.now();
    });
  return { state, clock, pass, read };
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
    expect(new EngineTime(clock, T0 + HOUR_MS).now()).toBe(T0 + HOUR_MS);
  });

  it("never waits for longer than ten seconds without reading the time again", () => {
    const { clock } = machine();
    expect(new EngineTime(clock, 0).msUntil(T0 + HOUR_MS)).toBe(10_000);
  });

  it("ignores a step of the wall clock that lasts for less than ten seconds", () => {
    const { clock, state, read } = machine();
    const time = new EngineTime(clock, 0);
    read(time, 1);
    state.wall += HOUR_MS;
    expect(read(time, 9).at(-1)).toBe(T0 + 10_000);
    state.wall -= HOUR_MS;
    expect(read(time, 60).at(-1)).toBe(T0 + 70_000);
    expect(time.status()).toEqual({ state: "synced", skewMs: 0 });
  });

  it.each([
    ["1.5 s", 1500, 20],
    ["an hour", HOUR_MS, 20],
    ["8 hours", 8 * HOUR_MS, 90],
    ["6 days", 144 * HOUR_MS, 1460],
  ])("follows a forward step by %s", (_, jump, withinSeconds) => {
    const { clock, state, read } = machine();
    const time = new EngineTime(clock, 0);
    read(time, 1);
    state.wall += jump;
    const [first = 0, ...rest] = read(time, 5);
    expect(first).toBe(T0 + 2000);
    expect(time.now() - first).toBe(4000);
    expect(rest).toHaveLength(4);
    read(time, withinSeconds - 5);
    expect(time.now()).toBe(state.wall);
    expect(time.status()).toMatchObject({ skewMs: 0 });
  });

  it("follows by at most an hour every ten seconds", () => {
    const { clock, state, read } = machine();
    const time = new EngineTime(clock, 0);
    read(time, 1);
    state.wall += 8 * HOUR_MS;
    const readings = read(time, 120);
    const steps = readings.flatMap((at, index) => {
      const stepMs = at - (readings[index - 1] ?? T0 + 1000) - 1000;
      return stepMs === 0 ? [] : [[index, stepMs] as const];
    });
    expect(steps).toHaveLength(8);
    for (const [number, [index, stepMs]] of steps.entries()) {
      expect(stepMs).toBe(HOUR_MS);
      if (number > 0) expect(index - (steps[number - 1]?.[0] ?? 0)).toBe(10);
    }
  });

  it.each([
    ["a year ahead", YEAR_MS],
    ["a day behind", -24 * HOUR_MS],
  ])("refuses a wall clock that is %s, and continues on the monotonic clock", (_, jump) => {
    const { clock, state, read } = machine();
    const time = new EngineTime(clock, 0);
    read(time, 1);
    state.wall += jump;
    expect(read(time, 600)).toEqual(
      Array.from({ length: 600 }, (_, second) => T0 + 2000 + second * 1000),
    );
    expect(time.status()).toEqual({ state: "refused", skewMs: jump });
  });

  it("runs one percent slower while it is ahead, and so does not stay ahead", () => {
    const { clock, state, read } = machine();
    const time = new EngineTime(clock, T0 + 60_000);
    expect(time.status()).toEqual({ state: "ahead", skewMs: -60_000 });
    const readings = read(time, 100);
    expect(readings.at(-1)).toBe(T0 + 60_000 + 99_000);
    expect(time.msUntil(time.now() + 990)).toBeCloseTo(1000);
    read(time, 6000);
    expect(time.status().state).toBe("synced");
    expect(time.now() - state.wall).toBeLessThanOrEqual(1000);
  });

  it("follows another reference than the wall clock", () => {
    const { clock, state, read } = machine();
    const store = { now: () => state.wall + 2.5 * HOUR_MS };
    const time = new EngineTime(clock, 0, { reference: store });
    expect(time.now()).toBe(T0 + 2.5 * HOUR_MS);
    read(time, 60);
    expect(time.status()).toEqual({ state: "synced", skewMs: 0 });
  });

  it("never goes backwards, and never further ahead of the wall clock by following it", () => {
    const change = fc.record({
      passMs: fc.double({ min: 0, max: 60_000, noNaN: true }),
      jumpMs: fc.oneof(
        fc.constant(0),
        fc.integer({ min: -2 * HOUR_MS, max: 12 * HOUR_MS }),
        fc.constantFrom(YEAR_MS, -YEAR_MS),
      ),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const { clock, state, pass } = machine();
        const time = new EngineTime(clock, 0);
        let last = time.now();
        for (const { passMs, jumpMs } of changes) {
          pass(passMs);
          const aheadBefore = last + passMs - state.wall;
          const now = time.now();
          expect(now).toBeGreaterThanOrEqual(last);
          expect(now - state.wall).toBeLessThanOrEqual(Math.max(0, aheadBefore) + 1);
          last = now;
          state.wall += jumpMs;
        }
      }),
    );
  });
});

class Monotonic {
  ms = 0;
  monotonicMs(): number {
    return this.ms;
  }
}

/** Of a minute, which is how long a reading is used. */
const MAX_DRIFT_MS = 30;

describe("the clock of a store", () => {
  it("is never ahead, and late by at most the shortest round trip", () => {
    const trips = fc.array(fc.record({ out: fc.nat(50), back: fc.nat(50), pause: fc.nat(2000) }), {
      minLength: 1,
      maxLength: 20,
    });
    fc.assert(
      fc.property(trips, (exchanges) => {
        const clock = new Monotonic();
        const storeNow = () => clock.ms + 5_000_000;
        const store = new StoreClock(clock, storeNow() - 80);
        let shortest = 80;
        for (const { out, back, pause } of exchanges) {
          const requestMs = clock.ms;
          clock.ms += out;
          const reading = storeNow();
          clock.ms += back;
          store.record(reading, requestMs);
          shortest = Math.min(shortest, back);
          expect(store.now()).toBeLessThanOrEqual(storeNow());
          expect(storeNow() - store.now()).toBeLessThanOrEqual(shortest + MAX_DRIFT_MS);
          clock.ms += pause;
        }
      }),
    );
  });

  it("is not ahead if the node's own clock runs 500 ppm too fast", () => {
    const clock = new Monotonic();
    let storeNow = 5_000_000;
    const store = new StoreClock(clock, storeNow);
    for (let second = 0; second < 50; second++) {
      storeNow += 1000;
      clock.ms += 1000.5;
      expect(store.now()).toBeLessThanOrEqual(storeNow + 1e-3);
    }
  });

  it("follows a store whose clock is set back", () => {
    const clock = new Monotonic();
    const store = new StoreClock(clock, 5_000_000);
    clock.ms += 1000;
    store.record(4_000_000, clock.ms);
    expect(store.now()).toBe(4_000_000);
  });

  it("forgets a reading after a minute, so that it follows a small step back", () => {
    const clock = new Monotonic();
    const store = new StoreClock(clock, 5_000_000);
    const storeNow = () => 5_000_000 + clock.ms - 500;
    for (let second = 0; second < 61; second++) {
      clock.ms += 1000;
      store.record(storeNow(), clock.ms);
    }
    expect(store.now()).toBeLessThanOrEqual(storeNow());
  });

  it("follows a store whose clock is set ahead", () => {
    const clock = new Monotonic();
    const store = new StoreClock(clock, 5_000_000);
    clock.ms += 1000;
    store.record(9_000_000, clock.ms);
    expect(store.now()).toBe(9_000_000);
  });
});
