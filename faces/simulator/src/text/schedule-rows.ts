/** Schedule words: how a schedule and its coverage are told to people, and its rows for programs. */
import { compiledPolicyOf, formatInteger, type PolicyDocument, resolvePolicy } from "@redrive/core";
import type { CsvRow } from "../export/csv.ts";
import type { Schedule } from "../schedule/schedule.ts";

/** A row an attempt; the first row names the columns. */
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
 * The longest sum that chance could have drawn; undefined where it could not have been longer, and
 * for decorrelated waits: they depend on the ones before, so that their sum has no such bound.
 */
export function maxSumMs(document: PolicyDocument, { waits, sumMs }: Schedule): number | undefined {
  const maxMs = waits.reduce((sum, { highMs }) => sum + highMs, 0);
  const isBounded = resolvePolicy(document).jitterType !== "DECORRELATED" && maxMs > sumMs;
  return isBounded ? maxMs : undefined;
}

/** " (20,000 tried)", after a share of calls; empty where nothing is left to chance: one call tells all. */
export function formatSamples(document: PolicyDocument, samples: number): string {
  return compiledPolicyOf(resolvePolicy(document)).draws
    ? ` (${formatInteger(samples)} tried)`
    : "";
}
