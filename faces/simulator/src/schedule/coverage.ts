/**
 * Coverage: the probability that a policy outlasts an outage, that is, has an attempt left when the
 * outage is over. It shows whether retries are worth anything, and no curve shows it: with seven
 * retries, full jitter covers 8 s in a quarter of the cases, plain exponential always.
 */
import { assertRange, type Policy, type PolicyDocument, type PresetName } from "@redrive/core";
import { type Draws, drawsOf, nextDraw } from "../engine/draws.ts";
import { nextWait, policyOf, type Waits, waitsOf } from "./waits.ts";

/** The default number of simulated calls. Its error is +-0.7 percentage points. */
export const COVERAGE_SAMPLES = 20_000;

export interface CoverageOptions {
  /** Number of simulated calls. 1 to 10 000 000. Default: `COVERAGE_SAMPLES`, 20 000. */
  readonly samples?: number;
  readonly seed?: number | string;
  /**
   * How long a failing attempt takes, in addition to the waits. 0 to 600 000 ms. Default: 0, it
   * fails at once.
   */
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

/** As `coverage`, for a resolved policy. */
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
  // Without randomness one call is enough.
  const runs = waits.compiled.draws ? samples : 1;
  let covered = 0;
  for (let run = 0; run < runs; run++) if (outlasts(waits, draws, outageMs, attemptMs)) covered++;
  return covered / runs;
}

function outlasts(waits: Waits, { state }: Draws, outageMs: number, attemptMs: number): boolean {
  let elapsedMs = 0;
  let previousMs = 0;
  for (let attempt = 1; elapsedMs < outageMs; attempt++) {
    elapsedMs += attemptMs;
    const draw = waits.compiled.draws ? nextDraw(state) : 0;
    const waitMs = nextWait(waits, attempt, elapsedMs, previousMs, draw);
    if (waitMs < 0) return false;
    previousMs = waitMs;
    elapsedMs += waitMs;
  }
  return true;
}

/** Number of simulated calls to find the attempts needed. */
const SEARCH_SAMPLES = 2000;

/** The attempts with which a share of the calls outlasts an outage; at most those of the policy. */
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
    const draw = waits.compiled.draws ? nextDraw(state) : 0;
    const waitMs = nextWait(waits, attempt, elapsedMs, previousMs, draw);
    if (waitMs < 0) return attempt;
    previousMs = waitMs;
    elapsedMs += waitMs;
  }
  return attempt;
}
