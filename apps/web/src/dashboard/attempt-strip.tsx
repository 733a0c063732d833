/** Attempt strip: draws the requests and the waits of a task on one time axis. */
import { formatDuration, holdDescriptions, statusText } from "@redrive/core";
import { Chart, Legend, timeAxis } from "../components/chart.tsx";
import type { AttemptView, TaskView } from "./parts/client.ts";
import { causeLabel, type WaitCause } from "./parts/status.tsx";
import { formatInstant, roundDuration, tick } from "./parts/times.tsx";

const REQUESTS = [
  { mark: "request", label: "request that failed", isGood: false },
  { mark: "request good", label: "request that succeeded or runs", isGood: true },
];

const BAR_TOP = 8;
const BAR_HEIGHT = 34;
const HEIGHT = 74;
/** Space on both sides, so that labels at the ends fit. */
const MARGIN = 16;
const TICK_SPACE = 90;

interface AttemptStripProps {
  readonly task: TaskView;
  readonly attempts: readonly AttemptView[];
}

export function AttemptStrip({ task, attempts }: AttemptStripProps) {
  const now = tick.value;
  const strip = stripOf(task, attempts, now);
  const totals = waitTotals(strip.bars, now);
  const waited = totals.map(({ cause, ms }) => `${roundDuration(ms)} for ${causeLabel(cause)}`);
  const requests = strip.bars.filter(({ kind }) => kind === "request").length;
  const description = `${requests} requests. Waited ${waited.join(", ") || "for nothing"}.`;
  return (
    <>
      <Chart title="Requests and waits" description={description} height={HEIGHT}>
        {(width) => <Bars strip={strip} width={width - 2 * MARGIN} now={now} />}
      </Chart>
      <Legend
        entries={[
          ...REQUESTS.filter(({ isGood }) =>
            strip.bars.some((bar) => bar.kind === "request" && bar.isGood === isGood),
          ),
          ...totals.map(({ cause, ms }) => ({
            mark: `wait ${cause}`,
            label: `${causeLabel(cause)}: ${roundDuration(ms)}`,
          })),
        ]}
      />
    </>
  );
}

interface BarsProps {
  readonly strip: Strip;
  readonly width: number;
  readonly now: number;
}

function Bars({ strip, width, now }: BarsProps) {
  const { bars, startAt, endAt, dueAt } = strip;
  const xOf = (at: number) => ((at - startAt) / (endAt - startAt)) * width;
  const axis = timeAxis(endAt - startAt);
  const ticks = axis
    .ticks(Math.max(2, Math.floor(width / TICK_SPACE)))
    .filter((ms) => ms <= endAt - startAt);
  const waits = bars.filter(({ kind }) => kind === "wait");
  const requests = bars.filter(({ kind }) => kind === "request");
  return (
    <g transform={`translate(${MARGIN} 0)`}>
      <line
        class="rule base"
        x1="0"
        x2={width}
        y1={BAR_TOP + BAR_HEIGHT}
        y2={BAR_TOP + BAR_HEIGHT}
      />
      {[...waits, ...requests].map((bar) => (
        <Bar key={`${bar.kind} ${bar.fromAt}`} bar={bar} strip={strip} width={width} />
      ))}
      {ticks.map((ms) => (
        <text key={ms} class="tick middle" x={xOf(startAt + ms)} y={BAR_TOP + BAR_HEIGHT + 18}>
          {axis.format(ms)}
        </text>
      ))}
      {now > startAt && now < endAt && <Marker x={xOf(now)} name="now" text="now" />}
      {dueAt !== null && dueAt >= now && (
        <Marker x={xOf(dueAt)} name="due" text={`next attempt due ${formatInstant(dueAt)}`} />
      )}
    </g>
  );
}

interface BarProps {
  readonly bar: StripBar;
  readonly strip: Strip;
  readonly width: number;
}

function Bar({ bar, strip, width }: BarProps) {
  const { x, width: barWidth } = placeBar(strip, bar, width);
  const isWait = bar.kind === "wait";
  const name = isWait ? `wait ${bar.cause}` : `request ${bar.isGood ? "good" : ""}`;
  return (
    <rect
      class={bar.isPlanned ? `${name} planned` : name}
      x={x}
      width={barWidth}
      y={isWait ? BAR_TOP + 8 : BAR_TOP}
      height={isWait ? BAR_HEIGHT - 8 : BAR_HEIGHT}
      rx="1.5"
    >
      <title>{barTitle(bar)}</title>
    </rect>
  );
}

function barTitle(bar: StripBar): string {
  const length = formatDuration(Math.round(bar.toAt - bar.fromAt));
  const from = `from ${formatInstant(bar.fromAt)}`;
  if (bar.kind === "wait") return `Waited ${length} for ${causeLabel(bar.cause)}, ${from}`;
  return `Attempt ${bar.attemptNumber}: ${bar.result} after ${length}, ${from}`;
}

function Marker({
  x,
  name,
  text,
}: {
  readonly x: number;
  readonly name: string;
  readonly text: string;
}) {
  return (
    <line class={`marker ${name}`} x1={x} x2={x} y1="0" y2={BAR_TOP + BAR_HEIGHT + 4}>
      <title>{text}</title>
    </line>
  );
}

// Strip: the requests and the waits of a task on one time axis, as bars. A bar that has not
// happened yet is marked as planned.

interface Span {
  readonly fromAt: number;
  readonly toAt: number;
  /** Ends after now. */
  readonly isPlanned: boolean;
}

type StripBar =
  | (Span & { readonly kind: "wait"; readonly cause: WaitCause | "ended" })
  | (Span & {
      readonly kind: "request";
      readonly attemptNumber: number;
      readonly isGood: boolean;
      /** The status code, the error, or "running". */
      readonly result: string;
    });

interface Strip {
  readonly bars: readonly StripBar[];
  readonly startAt: number;
  readonly endAt: number;
  /** When the next attempt is due; null if none is planned. */
  readonly dueAt: number | null;
}

export function stripOf(task: TaskView, attempts: readonly AttemptView[], now: number): Strip {
  const bars = [...attempts.flatMap(attemptBars), ...currentBars(task, attempts, now)];
  const { createdAt, nextAttemptAt, status, finishedAt } = task;
  const dueAt = status === "PENDING" ? nextAttemptAt : null;
  const startAt = Math.min(createdAt, ...bars.map(({ fromAt }) => fromAt));
  const lastAt = finishedAt ?? Math.max(now, dueAt ?? now);
  const endAt = Math.max(lastAt, startAt + 1, ...bars.map(({ toAt }) => toAt));
  return { bars, startAt, endAt, dueAt };
}

function attemptBars(attempt: AttemptView): readonly StripBar[] {
  const { attemptNumber, startedAt, durationMs, responseStatus, outcome, errorClass } = attempt;
  const waits = attempt.waits.map(({ cause, sinceAt, durationMs: ms }) => ({
    kind: "wait" as const,
    cause,
    fromAt: sinceAt,
    toAt: sinceAt + ms,
    isPlanned: false,
  }));
  const isGood = outcome === "success";
  const result = responseStatus === null ? (errorClass ?? outcome) : statusText(responseStatus);
  const toAt = startedAt + durationMs;
  const span = { fromAt: startedAt, toAt, isPlanned: false };
  return [...waits, { kind: "request", attemptNumber, isGood, result, ...span }];
}

/** What the task does now: it waits, or a request is under way. */
function currentBars(
  task: TaskView,
  attempts: readonly AttemptView[],
  now: number,
): readonly StripBar[] {
  const { status, wait, attemptNumber, nextAttemptAt, finishedAt } = task;
  if (finishedAt !== null && attempts.length === 0) return onlyWait(task, finishedAt);
  if (finishedAt !== null) return lastWait(attempts.at(-1), finishedAt);
  if (status === "IN_FLIGHT") {
    // A claimed task whose attempt is in the log already has ended it.
    if (attempts.some((attempt) => attempt.attemptNumber === attemptNumber)) return [];
    const fromAt = Math.min(nextAttemptAt ?? now, now);
    const result = "running";
    return [
      { kind: "request", attemptNumber, isGood: true, result, fromAt, toAt: now, isPlanned: true },
    ];
  }
  if (status !== "PENDING" || wait === undefined || wait === null) return [];
  const { cause, sinceAt, untilAt } = wait;
  const toAt = Math.max(now, untilAt ?? now);
  const current = { kind: "wait", cause, fromAt: sinceAt, toAt, isPlanned: true } as const;
  return [...delayBefore(attempts.at(-1), sinceAt), current];
}

/** Waits of at least this long are worth a bar. */
const MIN_LAST_MS = 1000;

/** A task that ended without any attempt waited all the time. Its last error names the guard that held longest. */
function onlyWait({ scheduledAt, lastError }: TaskView, finishedAt: number): readonly StripBar[] {
  if (finishedAt - scheduledAt < MIN_LAST_MS) return [];
  const guards = Object.entries(holdDescriptions) as [WaitCause, string][];
  const [cause = "ended" as const] =
    guards.find(([, words]) => lastError?.startsWith(`held by ${words}`)) ?? [];
  return [{ kind: "wait", cause, fromAt: scheduledAt, toAt: finishedAt, isPlanned: false }];
}

/** A task that ended without another attempt: nobody knows what it waited for after its delay. */
function lastWait(last: AttemptView | undefined, finishedAt: number): readonly StripBar[] {
  const delay = delayBefore(last, finishedAt);
  const fromAt =
    delay[0]?.toAt ?? (last === undefined ? finishedAt : last.startedAt + last.durationMs);
  if (finishedAt - fromAt < MIN_LAST_MS) return [];
  const rest = {
    kind: "wait",
    cause: "ended",
    fromAt,
    toAt: finishedAt,
    isPlanned: false,
  } as const;
  return [...delay, rest];
}

/** The delay after the last attempt, if a guard has held the task since then. */
function delayBefore(last: AttemptView | undefined, sinceAt: number): readonly StripBar[] {
  if (last === undefined || last.nextDelayMs === null) return [];
  const fromAt = last.startedAt + last.durationMs;
  const toAt = Math.min(fromAt + last.nextDelayMs, sinceAt);
  const cause = (last.delaySource ?? "policy") as WaitCause;
  return toAt > fromAt ? [{ kind: "wait", cause, fromAt, toAt, isPlanned: false }] : [];
}

interface PlacedBar {
  readonly x: number;
  readonly width: number;
}

/** Shorter requests would be invisible beside a wait of hours. */
export const MIN_WIDTH = 3;

/** The place of a bar on an axis of this width. A short bar is widened, but stays inside. */
export function placeBar(
  { startAt, endAt }: Pick<Strip, "startAt" | "endAt">,
  { fromAt, toAt }: Pick<Span, "fromAt" | "toAt">,
  width: number,
): PlacedBar {
  const scale = width / (endAt - startAt);
  const barWidth = Math.max(MIN_WIDTH, (toAt - fromAt) * scale);
  const x = Math.max(0, Math.min((fromAt - startAt) * scale, width - barWidth));
  return { x, width: barWidth };
}

/** How long the task waited for each cause, longest first. */
export function waitTotals(
  bars: readonly StripBar[],
  now: number,
): readonly { readonly cause: WaitCause | "ended"; readonly ms: number }[] {
  const totals = new Map<WaitCause | "ended", number>();
  for (const bar of bars) {
    if (bar.kind !== "wait") continue;
    const ms = Math.max(0, Math.min(bar.toAt, bar.isPlanned ? now : bar.toAt) - bar.fromAt);
    totals.set(bar.cause, (totals.get(bar.cause) ?? 0) + ms);
  }
  return [...totals].map(([cause, ms]) => ({ cause, ms })).sort((a, b) => b.ms - a.ms);
}
