/** Health sentence: the state of the service in one sentence, and the age of the oldest task. */
import { formatInteger } from "@redrive/core";

export interface HealthFacts {
  readonly total: number;
  readonly troubled: number;
  /** Tasks by status. */
  readonly totals: Readonly<Record<string, number>>;
}

export function healthSentence({ total, troubled, totals }: HealthFacts): string {
  const all = total === 1 ? "1 destination" : `${formatInteger(total)} destinations`;
  const health =
    troubled === 0 ? `No trouble at ${all}` : `Trouble at ${formatInteger(troubled)} of ${all}`;
  const waiting = formatInteger(totals["PENDING"] ?? 0);
  const dead = totals["EXHAUSTED"] ?? 0;
  const letters = dead === 1 ? "1 dead letter" : `${formatInteger(dead)} dead letters`;
  return `${health}; ${waiting} waiting, ${letters}.`;
}

/** In ms, from the metrics in the text format of Prometheus. */
export function oldestAge(metrics: string): number | undefined {
  const line = /^retry_oldest_task_age_seconds(?:\{[^}]*\})? (\S+)$/mu.exec(metrics);
  const seconds = Number(line?.[1]);
  return line === null || !Number.isFinite(seconds) ? undefined : seconds * 1000;
}
