/** Tests the size of slices of background work. */
import { describe, expect, it } from "vitest";
import { SliceSize } from "./slice-size.ts";

/** The sizes of the first slices, if each row takes `msPerRow`. */
function sizes(msPerRow: number, slices: number, size = new SliceSize()): readonly number[] {
  return Array.from({ length: slices }, () => {
    const { rows } = size;
    size.record(rows, rows * msPerRow);
    return rows;
  });
}

describe("the size of a slice", () => {
  it("grows to what fits into a millisecond", () => {
    expect(sizes(0.025, 5)).toEqual([10, 20, 40, 40, 40]);
  });

  it("has a limit, for a store that does not block", () => {
    expect(sizes(0, 7)).toEqual([10, 20, 40, 80, 160, 200, 200]);
  });

  it("shrinks at once, and not to nothing", () => {
    const size = new SliceSize();
    sizes(0, 10, size);
    size.record(200, 20);
    expect(size.rows).toBe(10);
    size.record(10, 20);
    expect(size.rows).toBe(10);
  });
});
