/** Limits: arrays grow only to their limit. */
import { expect, it } from "vitest";
import { doubleLength } from "./run.ts";

it("arrays grow to the limit and no further", () => {
  expect(doubleLength(new Int32Array(4_194_304))).toHaveLength(8_388_608);
  expect(() => doubleLength(new Int32Array(8_388_608))).toThrow(
    "over 8388608 calls or events at once",
  );
});
