/** Tests of the SRE throttle: its formula and its steady states. */
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import { seededRandom } from "../time/virtual.ts";
import {
  createThrottle,
  enterThrottle,
  recordThrottleResponse,
  rejectShare,
  restoreThrottle,
  saveThrottle,
  THROTTLE_DEFAULTS,
  type Throttle,
} from "./throttle.ts";

const T0 = 1_700_000_000_000;

/** `requests` requests were sent and their results are known; the first `accepts` were accepted. */
function asked(requests: number, accepts: number, k = 2): Throttle {
  const throttle = createThrottle({ ...THROTTLE_DEFAULTS, k }, T0);
  for (let n = 0; n < requests; n++) recordThrottleResponse(throttle, T0, n < accepts);
  return throttle;
}

describe("the formula", () => {
  test("refuses nothing while at least 1/K of the calls is accepted", () => {
    expect(rejectShare(asked(0, 0), T0)).toBe(0);
    expect(rejectShare(asked(100, 50), T0)).toBe(0);
    expect(rejectShare(asked(100, 100), T0)).toBe(0);
  });

  test("refuses (requests - K x accepts) / (requests + 1) beyond that", () => {
    expect(rejectShare(asked(99, 10), T0)).toBeCloseTo(0.79, 12);
    expect(rejectShare(asked(99, 10, 1.1), T0)).toBeCloseTo(0.88, 12);
    expect(rejectShare(asked(99, 0), T0)).toBeCloseTo(0.99, 12);
  });

  test("a draw below the share is refused, a draw equal to it is not", () => {
    const throttle = asked(3, 0);
    expect(enterThrottle(throttle, T0, 0.7499)).toBe(false);
    expect(enterThrottle(asked(3, 0), T0, 0.75)).toBe(true);
  });

  test("a refused call counts as a request at once, a sent one when its result is known", () => {
    const throttle = asked(3, 0);
    expect(enterThrottle(throttle, T0, 0)).toBe(false);
    expect(rejectShare(throttle, T0)).toBeCloseTo(4 / 5, 12);
    expect(enterThrottle(throttle, T0, 0.99)).toBe(true);
    expect(rejectShare(throttle, T0)).toBeCloseTo(4 / 5, 12);
    recordThrottleResponse(throttle, T0, false);
    expect(rejectShare(throttle, T0)).toBeCloseTo(5 / 6, 12);
    recordThrottleResponse(throttle, T0, true);
    expect(rejectShare(throttle, T0)).toBeCloseTo((6 - 2) / 7, 12);
  });

  test("a cold throttle refuses none of 100 parallel calls, however low the draw", () => {
    const throttle = createThrottle(THROTTLE_DEFAULTS, T0);
    for (const now of [T0, T0 + 120_000]) {
      for (let n = 0; n < 100; n++) expect(enterThrottle(throttle, now, 0)).toBe(true);
      for (let n = 0; n < 100; n++) recordThrottleResponse(throttle, now, true);
    }
  });

  test("forgets after two minutes", () => {
    const throttle = asked(1000, 0);
    expect(rejectShare(throttle, T0 + 100_000)).toBeGreaterThan(0.99);
    expect(rejectShare(throttle, T0 + 120_000)).toBe(0);
  });
});

describe("the steady state of 1000 calls per second of which 250 are accepted", () => {
  /** Two healthy minutes, then overload: calls sent per second when the window covers only the overload. */
  function sentPerSecond(k: number): number {
    const throttle = createThrottle({ k, windowMs: 120_000 }, 0);
    const random = seededRandom(`throttle ${k}`);
    let sent = 0;
    for (let second = 0; second < 300; second++) {
      let room = second < 120 ? 1000 : 250;
      if (second === 240) sent = 0;
      for (let ms = 0; ms < 1000; ms++) {
        const now = second * 1000 + ms;
        if (!enterThrottle(throttle, now, random.next())) continue;
        sent++;
        recordThrottleResponse(throttle, now, room-- > 0);
      }
    }
    return sent / 60;
  }

  test.each([
    [2, 500],
    [1.1, 275],
    [3, 754],
  ])("K = %d sends %d of them, within a fiftieth", (k, expected) => {
    const sent = sentPerSecond(k);
    expect(sent).toBeGreaterThan(0.98 * expected);
    expect(sent).toBeLessThan(1.02 * expected);
  });
});

describe("save and restore", () => {
  test("a restored throttle refuses and forgets like the saved one", () => {
    const throttle = asked(60, 10);
    const saved = JSON.parse(JSON.stringify(saveThrottle(throttle)));
    const restored = restoreThrottle(THROTTLE_DEFAULTS, saved, T0 + 60_000);
    for (const now of [T0, T0 + 60_000, T0 + 119_999, T0 + 120_000]) {
      expect(rejectShare(restored, now)).toBe(rejectShare(throttle, now));
    }
  });

  test("garbage is refused by name", () => {
    const saved = saveThrottle(asked(1, 1));
    expectGarbageRefused("throttle", saved, (value) =>
      restoreThrottle(THROTTLE_DEFAULTS, value, T0),
    );
  });
});
