/**
 * Durations: each distribution has the stated mean and quantiles, and invalid documents are
 * rejected.
 */
import { describe, expect, it } from "vitest";
import { checkDuration } from "../scenario/scenario-document.ts";
import { drawsOf } from "./draws.ts";
import { type DurationDocument, durationSampler, nextNormal } from "./durations.ts";

const COUNT = 40_000;

function sample(document: DurationDocument): number[] {
  const draws = drawsOf(5, "spans");
  const sampler = durationSampler(document);
  return Array.from({ length: COUNT }, () => sampler(draws));
}

function share(values: readonly number[], below: number): number {
  return values.filter((value) => value < below).length / values.length;
}

describe("durations", () => {
  it.each<[DurationDocument, number]>([
    [20, 20],
    [{ kind: "FIXED", ms: 20 }, 20],
    [{ kind: "UNIFORM", minMs: 10, maxMs: 30 }, 20],
    [{ kind: "EXPONENTIAL", meanMs: 20 }, 20],
    [{ kind: "NORMAL", meanMs: 20, sdMs: 2 }, 20],
    [{ kind: "LOGNORMAL", medianMs: 20, sigma: 0.5 }, 22.66],
  ])("%j has the stated mean", (document, mean) => {
    const values = sample(document);
    const measured = values.reduce((sum, value) => sum + value, 0) / COUNT;
    expect(Math.abs(measured / mean - 1)).toBeLessThan(0.02);
    expect(values.every((value) => value >= 0)).toBe(true);
  });

  it("draws normals with the quantiles of the normal distribution", () => {
    const { state } = drawsOf(6, "normal");
    const values = Array.from({ length: 5 * COUNT }, () => nextNormal(state));
    for (const [at, expected] of [
      [-1.96, 0.025],
      [-1, 0.1587],
      [0, 0.5],
      [1, 0.8413],
      [2.576, 0.995],
    ] as const) {
      expect(Math.abs(share(values, at) - expected)).toBeLessThan(0.004);
    }
    // Tails: the ziggurat draws them separately.
    expect(Math.abs(share(values, -3.45) / 0.00028 - 1)).toBeLessThan(0.5);
    expect(Math.abs((1 - share(values, 3.0)) / 0.00135 - 1)).toBeLessThan(0.15);
  });

  it("draws exponentials with median ln 2", () => {
    expect(
      Math.abs(share(sample({ kind: "EXPONENTIAL", meanMs: 1 }), Math.LN2) - 0.5),
    ).toBeLessThan(0.007);
  });

  it("reports the problem of a duration and quotes the value", () => {
    expect(checkDuration(-1, "hop")[0]?.message).toBe(
      "hop must be a number from 0 to 86400000, got -1",
    );
    expect(checkDuration({ kind: "GAMMA" }, "hop")[0]?.message).toContain(
      "hop.kind must be one of FIXED",
    );
    expect(checkDuration({ kind: "UNIFORM", minMs: 1 }, "hop")[0]?.message).toContain(
      "hop.maxMs must be given",
    );
    expect(checkDuration({ kind: "FIXED", mss: 1, ms: 1 }, "hop")[0]?.message).toContain(
      'did you mean "ms"?',
    );
    expect(checkDuration({ kind: "UNIFORM", minMs: 20, maxMs: 10 }, "hop")[0]?.message).toBe(
      "hop.maxMs must be at least 20, got 10",
    );
    expect(checkDuration("10 ms", "hop")[0]?.message).toContain('got "10 ms"');
  });
});
