/** The odd half of the seeds: two files, so that two cores share the work. */
import { describe, it } from "vitest";
import { runShare } from "./simulation.testing.ts";

describe("the simulated cluster", () => {
  it("keeps every promise, on every second seed from 1", { timeout: 1_800_000 }, () =>
    runShare(1, 2),
  );
});
