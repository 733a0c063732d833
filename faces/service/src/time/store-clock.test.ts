/** Tests that a node follows the clock of its store, and is never ahead of it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StoreClock } from "./store-clock.ts";

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
