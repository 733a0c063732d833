/** Schedule rows: a schedule as rows for export, and text about its waits and its coverage. */
import { compiledPolicyOf, formatInteger, type PolicyDocument, resolvePolicy } from "@redrive/core";
import type { CsvRow } from "./export.ts";
import type { Schedule } from "./schedule/schedule.ts";

/** One row per attempt. The first row names the columns. */
export function scheduleRows({ waits }: Schedule): readonly CsvRow[] {
  const head = ["attempt", "waitMs", "lowMs", "highMs", "ceilingMs", "startsAtMs"];
  const rows = waits.map(({ attempt, delayMs, lowMs, highMs, ceilingMs, sumMs }) => [
    attempt + 1,
    delayMs,
    lowMs,
    highMs,
    ceilingMs,
    sumMs,
  ]);
  return [head, [1, 0, 0, 0, 0, 0], ...rows];
}

/**
 * The largest possible sum of the waits. Undefined if the drawn sum is the largest, and for
 * decorrelated waits, which depend on earlier waits and so have no such bound.
 */
export function maxSumMs(document: PolicyDocument, { waits, sumMs }: Schedule): number | undefined {
  const maxMs = waits.reduce((sum, { highMs }) => sum + highMs, 0);
  const isBounded = resolvePolicy(document).jitterType !== "DECORRELATED" && maxMs > sumMs;
  return isBounded ? maxMs : undefined;
}

/**
 * " (20,000 tried)", to append to a share of calls. Empty for a policy without randomness, for
 * which one call is enough.
 */
export function formatSamples(document: PolicyDocument, samples: number): string {
  return compiledPolicyOf(resolvePolicy(document)).draws
    ? ` (${formatInteger(samples)} tried)`
    : "";
}
