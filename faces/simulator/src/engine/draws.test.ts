/** Draws: repeat for the same seed and name, and are uniform. */
import { describe, expect, it } from "vitest";
import { drawsOf, nextDraw } from "./draws.ts";

describe("draws", () => {
  it("repeat for the same seed and name, and differ for another seed or name", () => {
    const first = drawsOf(1, "a");
    const list = Array.from({ length: 5 }, () => first.next());
    const again = drawsOf(1, "a");
    expect(Array.from({ length: 5 }, () => nextDraw(again.state))).toEqual(list);
    expect(drawsOf(1, "b").next()).not.toBe(list[0]);
    expect(drawsOf(2, "a").next()).not.toBe(list[0]);
    expect(drawsOf(1, "a").fork("x").next()).toBe(drawsOf(1, "a").fork("x").next());
  });

  it("are uniform in [0, 1)", () => {
    const { state } = drawsOf(3, "even");
    const bins = new Array<number>(20).fill(0);
    for (let i = 0; i < 100_000; i++) {
      const bin = Math.floor(nextDraw(state) * 20);
      bins[bin] = (bins[bin] ?? 0) + 1;
    }
    expect(Math.min(...bins)).toBeGreaterThan(4700);
    expect(Math.max(...bins)).toBeLessThan(5300);
  });
});
