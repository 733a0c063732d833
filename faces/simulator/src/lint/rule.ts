/** Rule: checks a policy for one problem and describes it with figures. */
import type { Policy } from "@redrive/core";
import { COVERAGE_SAMPLES } from "../schedule/coverage.ts";
import type { Target } from "./subject.ts";

export type Severity = "error" | "warning" | "info";

export interface Finding {
  readonly id: string;
  readonly severity: Severity;
  /**
   * The field that causes it, such as `jitterType`; with tiers, prefixed by the name of the tier.
   */
  readonly field: string;
  /** One sentence that contains the figures. */
  readonly sentence: string;
  /** What to change. */
  readonly fix: string;
  /** The figures of the sentence, for programs. */
  readonly figures: Readonly<Record<string, number>>;
  readonly docs: string;
}

/** The result of a rule. Lint adds the id and the link to the docs. */
export interface Found {
  readonly severity: Severity;
  readonly field: string;
  readonly sentence: string;
  readonly fix: string;
  readonly figures: Readonly<Record<string, number>>;
}

export interface Rule {
  readonly id: string;
  /** The failure mode that the rule finds. */
  readonly problem: string;
  check(target: Target): Found | undefined;
}

/** From this many clients on, synchronized retries matter. */
export const MIN_HERD = 10;

/** Enough samples for a figure in a sentence: +-2 percentage points. */
export const SAMPLES = 2000;

/** The maximum of simulated attempts for one figure, which take a fraction of a second. */
const MAX_SAMPLED_ATTEMPTS = 2_000_000;

/**
 * The number of simulated calls for the coverage of an outage. It is the default of `coverage`, so
 * lint reports the same figure as the curve. It is lower for calls with more than a hundred
 * attempts.
 */
export function sampleCalls({ maxAttempts }: Policy): number {
  return Math.max(
    SAMPLES,
    Math.min(COVERAGE_SAMPLES, Math.floor(MAX_SAMPLED_ATTEMPTS / maxAttempts)),
  );
}
