/** Simulates the even seeds. Two files run in parallel. */
import { describe, expect, it } from "vitest";
import { simulateShare } from "../../tools/simulate.mjs";

describe("the simulated cluster", () => {
  it("passes every checker on the even seeds", { timeout: 1_800_000 }, async () => {
    const { isPassed, output } = await simulateShare(0, 2);
    expect(isPassed, output).toBe(true);
    console.log(output);
  });
});
