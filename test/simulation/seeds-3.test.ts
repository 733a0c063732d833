/** Simulates seeds 3, 7, 11 and so on. Four files run in parallel. */
import { describe, it } from "vitest";
import { runShare } from "./seed-share.ts";

describe("the simulated cluster", () => {
  it("passes every checker on seeds 3, 7, ...", { timeout: 1_800_000 }, () => runShare(3, 4));
});
