/** Tests of what a run may grow to. */
import { expect, it } from "vitest";
import { doubleLength } from "./limits.ts";

it("lets columns grow to what fits a machine, and no further", () => {
  expect(doubleLength(new Int32Array(4_194_304))).toHaveLength(8_388_608);
  expect(() => doubleLength(new Int32Array(8_388_608))).toThrow(
    "over 8388608 calls or events at once",
  );
});
