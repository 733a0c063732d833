/** Readout: the legend with values, for the whole run or for the column under the cursor. */

import { formatDuration, formatInteger, formatNumber } from "@redrive/core";
import type { Report } from "@redrive/simulator";
import { type Columns, endOf } from "./columns.ts";
import { cursor, endMs } from "./plot.ts";

interface Reading {
  readonly when: string;
  readonly offered: string;
  readonly attempts: string;
  readonly succeeded: string;
  readonly failed: string;
  readonly queue: string;
}

export function readingOf(report: Report, columns: Columns, column: number | undefined): Reading {
  if (column === undefined || column >= columns.attempts.length) return wholeRun(report);
  const fromMs = column * columns.columnMs;
  const rate = (values: readonly number[]) => `${formatRate(values[column] ?? 0)}/s`;
  return {
    when: `${fromMs === 0 ? "0" : formatDuration(fromMs)} to ${formatDuration(fromMs + columns.columnMs)}`,
    offered: rate(columns.offered),
    attempts: rate(columns.attempts),
    succeeded: rate(columns.succeeded),
    failed: rate(columns.failed),
    queue: formatDuration(Math.round(columns.queueMs[column] ?? 0)),
  };
}

function formatRate(rate: number): string {
  return rate >= 100 ? formatInteger(rate) : formatNumber(rate);
}

function wholeRun(report: Report): Reading {
  const seconds = Math.max(0.001, endOf(report) / 1000);
  const { series } = report;
  const rate = (values: Float64Array) =>
    `${formatRate(values.reduce((sum, value) => sum + value, 0) / seconds)}/s`;
  return {
    when: "whole run",
    offered: rate(series.offered),
    attempts: rate(series.attempts),
    succeeded: rate(series.succeeded),
    failed: rate(series.failed),
    queue: formatDuration(Math.round(series.queueMs.reduce((max, ms) => Math.max(max, ms), 0))),
  };
}

interface ReadoutProps {
  readonly report: Report;
  readonly columns: Columns;
  readonly ghostName: string | undefined;
}

const MARKS = [
  { lane: "offered", label: "offered", mark: "key-offered" },
  { lane: "attempts", label: "attempts", mark: "key-attempts" },
  { lane: "succeeded", label: "goodput", mark: "key-good" },
  { lane: "failed", label: "given up", mark: "" },
  { lane: "queue", label: "queue age", mark: "key-queue" },
] as const;

/** Only the call models report the age of the queue. */
function marksOf({ engine }: Report) {
  const hasQueue = engine === "calls" || engine === "fleet";
  return hasQueue ? MARKS : MARKS.filter(({ lane }) => lane !== "queue");
}

export function Readout({ report, columns, ghostName }: ReadoutProps) {
  const reading = readingOf(report, columns, cursor.value);
  return (
    <div class="readout">
      <dl>
        <div class="readout-when">
          <dt>time</dt>
          <dd>{reading.when}</dd>
        </div>
        {marksOf(report).map(({ lane, label, mark }) => (
          <div key={lane}>
            <dt>
              {mark !== "" && <i class={`key ${mark}`} aria-hidden="true" />}
              {label}
            </dt>
            <dd>{reading[lane]}</dd>
          </div>
        ))}
        {ghostName !== undefined && (
          <div>
            <dt>
              <i class="key key-ghost" aria-hidden="true" />
              dashed
            </dt>
            <dd>{ghostName}</dd>
          </div>
        )}
      </dl>
    </div>
  );
}

/** The cursor for keyboards and screen readers: a slider whose value text is the readout. */
export function CursorSlider({ report, columns }: Omit<ReadoutProps, "ghostName">) {
  const last = Math.max(0, columns.attempts.length - 1);
  const value = Math.min(last, cursor.value ?? 0);
  const reading = readingOf(report, columns, value);
  const share = Math.min(1, endOf(report) / endMs.value);
  return (
    <input
      type="range"
      class="cursor-slider"
      style={{ width: `${share * 100}%` }}
      aria-label="Read the chart at"
      aria-valuetext={`${reading.when}: offered ${reading.offered}, attempts ${reading.attempts}, goodput ${reading.succeeded}, given up ${reading.failed}, queue age ${reading.queue}`}
      min={0}
      max={last}
      value={value}
      onInput={(event) => {
        cursor.value = Number(event.currentTarget.value);
      }}
      onFocus={() => {
        cursor.value ??= 0;
      }}
      onBlur={() => {
        cursor.value = undefined;
      }}
    />
  );
}
