/** Simulates seeds 1, 5, 9 and so on. Four files run in parallel. */
import { describe, it } from "vitest";
import { runShare } from "./seed-share.ts";

describe("the simulated cluster", () => {
  it("passes every checker on seeds 1, 5, ...", { timeout: 1_800_000 }, () => runShare(1, 4));
});
