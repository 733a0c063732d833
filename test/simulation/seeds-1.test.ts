/** Simulates the odd seeds. Two files run in parallel. */
import { describe, it } from "vitest";
import { runShare } from "./seed-share.ts";

describe("the simulated cluster", () => {
  it("passes every checker on the odd seeds", { timeout: 1_800_000 }, () => runShare(1, 2));
});
