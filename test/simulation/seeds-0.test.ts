/** Simulates the even seeds. Two files run in parallel. */
import { describe, it } from "vitest";
import { runShare } from "./seed-share.ts";

describe("the simulated cluster", () => {
  it("passes every checker on the even seeds", { timeout: 1_800_000 }, () => runShare(0, 2));
});
