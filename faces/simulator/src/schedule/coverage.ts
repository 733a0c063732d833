/**
 * Coverage: the chance that a policy outlasts an outage, that is, still has an attempt left when it
 * is over. No other figure tells as early whether retrying is worth anything, and no curve shows
 * it: full jitter over seven retries covers 8 s in a quarter of the cases, plain exponential always.
 */

import type { PresetName } from "@redrive/core";
import { assertRange, type Policy, type PolicyDocument } from "@redrive/core";
import { type Draws, drawsOf, nextDraw } from "../random/draws.ts";
import { policyOf } from "./policy-of.ts";
import { nextWait, type Waits, waitsOf } from "./waits.ts";

/** Calls that are tried unless told otherwise: good for +-0.7 points. */
export const COVERAGE_SAMPLES = 20_000;

export interface CoverageOptions {
  /** Calls that are tried. 1 to 10 000 000. Default: `COVERAGE_SAMPLES`, 20 000. */
  readonly samples?: number;
  readonly seed?: number | string;
  /** How long a failing attempt takes, on top of the waits. 0 to 600 000 ms. Default: 0, it fails at once. */
  readonly attemptMs?: number;
}

/** The share of calls that start an attempt `outageMs` or more after their first. */
export function coverage(
  policy: PolicyDocument | PresetName,
  outageMs: number,
  options: CoverageOptions = {},
): number {
  assertRange("attemptMs", options.attemptMs ?? 0, 0, 600_000);
  return coverageOf(policyOf(policy), outageMs, options);
}

/** As `coverage`, for a policy that is already resolved. */
export function coverageOf(
  policy: Policy,
  outageMs: number,
  options: CoverageOptions = {},
): number {
  const { samples = COVERAGE_SAMPLES, seed = 1, attemptMs = 0 } = options;
  assertRange("outageMs", outageMs, 0, 31_536_000_000);
  assertRange("samples", samples, 1, 10_000_000);
  const waits = waitsOf(policy);
  const draws = drawsOf(seed, "coverage");
  // Nothing is left to chance: one call tells all.
  const runs = waits.kernel.draws ? samples : 1;
  let covered = 0;
  for (let run = 0; run < runs; run++) if (outlasts(waits, draws, outageMs, attemptMs)) covered++;
  return covered / runs;
}

function outlasts(waits: Waits, { state }: Draws, outageMs: number, attemptMs: number): boolean {
  let elapsedMs = 0;
  let previousMs = 0;
  for (let attempt = 1; elapsedMs < outageMs; attempt++) {
    elapsedMs += attemptMs;
    const draw = waits.kernel.draws ? nextDraw(state) : 0;
    const waitMs = nextWait(waits, attempt, elapsedMs, previousMs, draw);
    if (waitMs < 0) return false;
    previousMs = waitMs;
    elapsedMs += waitMs;
  }
  return true;
}

/** Calls that are tried to find the attempts needed. */
const SEARCH_SAMPLES = 2000;

/** The attempts with which a share of the calls outlasts an outage; at most the policy's own. */
export function attemptsToOutlast(policy: Policy, outageMs: number, share: number): number {
  const waits = waitsOf(policy);
  const { state } = drawsOf(1, "coverage");
  const needed = new Float64Array(SEARCH_SAMPLES);
  for (let run = 0; run < SEARCH_SAMPLES; run++) needed[run] = attemptsOf(waits, state, outageMs);
  needed.sort();
  return needed[Math.min(SEARCH_SAMPLES - 1, Math.floor(share * SEARCH_SAMPLES))] as number;
}

/** How many attempts one call makes until it starts one after the outage, or gives up. */
function attemptsOf(waits: Waits, state: Int32Array, outageMs: number): number {
  let elapsedMs = 0;
  let previousMs = 0;
  let attempt = 1;
  for (; elapsedMs < outageMs; attempt++) {
    const draw = waits.kernel.draws ? nextDraw(state) : 0;
    const waitMs = nextWait(waits, attempt, elapsedMs, previousMs, draw);
    if (waitMs < 0) return attempt;
    previousMs = waitMs;
    elapsedMs += waitMs;
  }
  return attempt;
}
