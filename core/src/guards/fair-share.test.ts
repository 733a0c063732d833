/** Tests of the fair share: equal parts, nothing above the limit, and room for the next member. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fairRoom } from "./fair-share.ts";

/** Members take turns, one unit each, until no member may take more. */
function divide(limit: number, members: number): readonly number[] {
  const own = new Array<number>(members).fill(0);
  const sum = () => own.reduce((total, one) => total + one, 0);
  for (let isChanged = true; isChanged; ) {
    isChanged = false;
    for (let member = 0; member < members; member++) {
      if (fairRoom(limit, sum(), own[member] as number) < 1) continue;
      own[member] = (own[member] as number) + 1;
      isChanged = true;
    }
  }
  return own;
}

describe("a shared limit", () => {
  test("is divided equally, and a part of it stays free for the next member", () => {
    expect(divide(1000, 1)).toEqual([875]);
    expect(divide(1000, 2)).toEqual([467, 466]);
    expect(divide(1000, 4)).toEqual([242, 241, 241, 241]);
    expect(divide(3, 1)).toEqual([2]);
    expect(divide(1, 1)).toEqual([1]);
  });

  test("gives a new member something at once, whatever one member has taken", () => {
    for (const limit of [2, 3, 8, 20, 256, 1000]) {
      const [taken = 0] = divide(limit, 1);
      expect(fairRoom(limit, taken, 0)).toBeGreaterThanOrEqual(Math.max(1, Math.floor(limit / 10)));
    }
  });

  test("is never exceeded, and the room is what may be taken one by one", () => {
    fc.assert(
      fc.property(fc.nat(2000), fc.nat(2000), fc.nat(2000), (limit, others, own) => {
        const used = others + own;
        const room = fairRoom(limit, used, own);
        expect(room).toBeLessThanOrEqual(Math.max(0, limit - used));
        let taken = 0;
        while (fairRoom(limit, used + taken, own + taken) > 0) taken++;
        expect(room).toBe(taken);
      }),
    );
  });
});
