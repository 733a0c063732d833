/** Health sentence: the state of the service in one sentence. */
import { formatCount, formatInteger } from "@redrive/core";

export interface HealthFacts {
  readonly total: number;
  readonly troubled: number;
  /** Tasks by status. */
  readonly totals: Readonly<Record<string, number>>;
}

export function healthSentence({ total, troubled, totals }: HealthFacts): string {
  const all = formatCount(total, "destination");
  const health =
    troubled === 0 ? `No trouble at ${all}` : `Trouble at ${formatInteger(troubled)} of ${all}`;
  const waiting = formatInteger(totals["PENDING"] ?? 0);
  const letters = formatCount(totals["EXHAUSTED"] ?? 0, "dead letter");
  return `${health}; ${waiting} waiting, ${letters}.`;
}
