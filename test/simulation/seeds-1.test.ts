/** Simulates the odd seeds. There are two files, so that two cores share the work. */
import { describe, it } from "vitest";
import { runShare } from "./simulation.testing.ts";

describe("the simulated cluster", () => {
  it("passes every checker on every odd seed", { timeout: 1_800_000 }, () => runShare(1, 2));
});
