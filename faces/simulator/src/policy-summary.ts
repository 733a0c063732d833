/** Policy summary: describes a policy in one line. Its own file, because every view of the pages loads it. */
import {
  formatCount,
  formatDuration,
  formatNumber,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";

export function policySummary(document: PolicyDocument): string {
  const policy = resolvePolicy(document);
  if (policy.maxAttempts === 1) return "one attempt, no retries";
  const parts = [jitterText(policy), curveText(policy), formatCount(policy.maxAttempts, "attempt")];
  return `${parts.join(", ")}, ${totalText(policy)}`;
}

/** The largest total budget means no limit. */
const NO_LIMIT_MS = 365 * 86_400_000;

function totalText({ totalBudgetMs }: Policy): string {
  return totalBudgetMs >= NO_LIMIT_MS ? "no time limit" : `${formatDuration(totalBudgetMs)} in all`;
}

function jitterText({ jitterType, jitterRatio }: Policy): string {
  if (jitterType === "NONE") return "no jitter";
  if (jitterType === "PROPORTIONAL") return `±${formatNumber(jitterRatio * 100)} % jitter`;
  return `${jitterType.toLowerCase()} jitter`;
}

const GROWTH: Readonly<Record<number, string>> = { 1: "each", 2: "doubling", 3: "tripling" };

function curveText(policy: Policy): string {
  if (policy.delaysMs !== undefined) {
    const maxMs = policy.delaysMs.reduce((a, b) => Math.max(a, b));
    return `${formatCount(policy.delaysMs.length, "listed wait")} up to ${formatDuration(maxMs)}`;
  }
  const first = formatDuration(policy.initialDelayMs);
  const cap = formatDuration(policy.maxDelayMs);
  if (policy.backoff === "FIXED") return `${first} each`;
  if (policy.backoff === "LINEAR") return `${first} more each time up to ${cap}`;
  if (policy.jitterType === "DECORRELATED")
    return `${first} to 3 times the last wait, up to ${cap}`;
  const growth = GROWTH[policy.multiplier] ?? `times ${formatNumber(policy.multiplier)}`;
  return `${first} ${growth} up to ${cap}`;
}
