/** Simulates every fourth seed, from 2. There are four files, so that cores share the work. */
import { describe, it } from "vitest";
import { runShare } from "./simulation.testing.ts";

describe("the simulated cluster", () => {
  it("passes every checker on every fourth seed from 2", { timeout: 1_800_000 }, () =>
    runShare(2, 4),
  );
});
