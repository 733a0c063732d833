/** Simulates seeds 0, 4, 8 and so on. Four files run in parallel. */
import { describe, it } from "vitest";
import { runShare } from "./seed-share.ts";

describe("the simulated cluster", () => {
  it("passes every checker on seeds 0, 4, ...", { timeout: 1_800_000 }, () => runShare(0, 4));
});
