/** Rule: one thing that will hurt, how lint tells it, and the figure behind it. */
import type { Policy } from "@redrive/core";
import { COVERAGE_SAMPLES } from "../schedule/coverage.ts";
import type { Target } from "./subject.ts";

export type Severity = "error" | "warning" | "info";

export interface Finding {
  readonly id: string;
  readonly severity: Severity;
  /** The field at fault, e.g. `jitterType`; with tiers, after the tier's name. */
  readonly field: string;
  /** One sentence with the figures in it. */
  readonly sentence: string;
  /** What to change. */
  readonly fix: string;
  /** The figures of the sentence, for programs. */
  readonly figures: Readonly<Record<string, number>>;
  readonly docs: string;
}

/** What a rule found; its id and page are added by lint. */
export interface Found {
  readonly severity: Severity;
  readonly field: string;
  readonly sentence: string;
  readonly fix: string;
  readonly figures: Readonly<Record<string, number>>;
}

export interface Rule {
  readonly id: string;
  /** Which failure mode or bad example it stands for. */
  readonly problem: string;
  check(target: Target): Found | undefined;
}

/** From this many clients on, chance alone no longer keeps them apart. */
export const MIN_HERD = 10;

/** Enough samples for a figure in a sentence: +-2 points. */
export const SAMPLES = 2000;

/** Attempts that are tried for one figure, at most a fraction of a second of them. */
const MAX_SAMPLED_ATTEMPTS = 2_000_000;

/**
 * Calls tried for the chance to outlast an outage: as many as `coverage` tries, so that lint tells
 * the figure that the curve shows. Fewer where a call makes more than a hundred attempts.
 */
export function sampleCalls({ maxAttempts }: Policy): number {
  return Math.max(
    SAMPLES,
    Math.min(COVERAGE_SAMPLES, Math.floor(MAX_SAMPLED_ATTEMPTS / maxAttempts)),
  );
}
