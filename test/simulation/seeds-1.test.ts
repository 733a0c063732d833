/** Simulates every fourth seed, from 1. There are four files, so that cores share the work. */
import { describe, it } from "vitest";
import { runShare } from "./simulation.testing.ts";

describe("the simulated cluster", () => {
  it("passes every checker on every fourth seed from 1", { timeout: 1_800_000 }, () =>
    runShare(1, 4),
  );
});
