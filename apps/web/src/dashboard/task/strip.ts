/**
 * Strip: the requests and the waits of a task on one time axis, as bars. A bar that has not happened
 * yet is marked as planned.
 */
import { statusText } from "@redrive/core";
import type { WaitCause } from "../parts/causes.ts";
import type { AttemptView, TaskView } from "../service/client.ts";

interface Span {
  readonly fromAt: number;
  readonly toAt: number;
  /** Ends after now. */
  readonly isPlanned: boolean;
}

export type StripBar =
  | (Span & { readonly kind: "wait"; readonly cause: WaitCause | "ended" })
  | (Span & {
      readonly kind: "request";
      readonly attemptNumber: number;
      readonly isGood: boolean;
      /** The status code, the error, or "running". */
      readonly result: string;
    });

export interface Strip {
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

export interface PlacedBar {
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
