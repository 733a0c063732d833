/** Last hour: the figures of the overview, from the counts per minute that the service keeps. */
import { formatInteger, formatNumber, formatPercent } from "@redrive/core";
import { roundDuration } from "../parts/round-duration.ts";
import type { Activity } from "../service/client.ts";

export interface Figure {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly note: string;
  /** Per minute, the oldest first; null: that minute has no value. */
  readonly series: readonly (number | null)[];
  /** The value of a full bar. Default: the largest one. */
  readonly max?: number;
  /** The value of one minute, with its unit; null: it has none. */
  formatMinute(value: number | null): string;
  readonly isBad?: boolean;
}

type Counts = Activity["counts"];

export function figuresOf({ counts }: Activity): readonly Figure[] {
  const { succeeded, deadLetters, attempts, retries } = counts;
  const [good, dead, all, again] = [succeeded, deadLetters, attempts, retries].map(sumOf) as [
    number,
    number,
    number,
    number,
  ];
  return [
    {
      name: "throughput",
      label: "Succeeded",
      value: formatInteger(good),
      note: `${perMinute(succeeded)} in the last minute`,
      series: succeeded,
      formatMinute: countOf("succeeded"),
    },
    {
      name: "success",
      label: "Success rate",
      value: good + dead === 0 ? "–" : formatPercent(good / (good + dead)),
      note: "of the tasks that ended",
      series: rateSeries(counts),
      max: 1,
      formatMinute: (value) => (value === null ? "no task ended" : formatPercent(value)),
      isBad: dead > good,
    },
    {
      name: "retries",
      label: "Retries",
      value: formatInteger(again),
      note: all === again ? "no first attempts" : `${amplification(all, again)} attempts per task`,
      series: retries,
      formatMinute: countOf("retries"),
    },
    {
      name: "dead",
      label: "New dead letters",
      value: formatInteger(dead),
      note: "in the last hour",
      series: deadLetters,
      formatMinute: countOf("dead letters"),
      isBad: dead > 0,
    },
    {
      name: "oldest",
      label: "Oldest open task",
      value: ageText(lastAge(counts.oldestAgeMs)),
      note: lastAge(counts.oldestAgeMs) === 0 ? "no task is open" : "since it was created",
      series: counts.oldestAgeMs,
      formatMinute: (value) => ageText(value ?? 0),
    },
  ];
}

/** Every minute has a count. */
function countOf(unit: string): Figure["formatMinute"] {
  return (value) => `${formatInteger(value ?? 0)} ${unit}`;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

/** Of the last minute that is over. */
function perMinute(values: readonly number[]): string {
  return formatInteger(values.at(-2) ?? 0);
}

function amplification(attempts: number, retries: number): string {
  return formatNumber(attempts / (attempts - retries));
}

/** The share of each minute; a minute without ended tasks has none. */
function rateSeries({ succeeded, deadLetters }: Counts): readonly (number | null)[] {
  return succeeded.map((good, minute) => {
    const ended = good + (deadLetters[minute] ?? 0);
    return ended === 0 ? null : good / ended;
  });
}

/** It is sampled once per minute, so the current minute may lack it. */
function lastAge(ages: readonly number[]): number {
  return ages.at(-1) || (ages.at(-2) ?? 0);
}

function ageText(ms: number): string {
  return ms === 0 ? "none" : roundDuration(ms);
}
