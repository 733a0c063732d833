/** Simulates the even seeds. There are two files, so that two cores share the work. */
import { describe, it } from "vitest";
import { runShare } from "./simulation.testing.ts";

describe("the simulated cluster", () => {
  it("passes every checker on every even seed", { timeout: 1_800_000 }, () => runShare(0, 2));
});
