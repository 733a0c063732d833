/**
 * Call state: what can be asked of a call at any moment, the notes it keeps and tells of, its last
 * word, and giving way to a layer above. Apart from the call, so that what it does reads by itself.
 */
import type {
  CallHistory,
  CallRequest,
  HoldDecision,
  Outcome,
  RetryDecision,
  StopReason,
  Verdict,
} from "@redrive/core";
import type { Call } from "./call.ts";
import { type CallEvent, notify, type Told } from "./events.ts";
import type { Ending } from "./options.ts";
import { errorOf, newStory, recordOf, type Story } from "./story.ts";

/** What is remembered of the call, from its first failure on. */
export function storyOf<T>(call: Call<T>): Story<T> {
  call.story ??= newStory(call.setting.random, call.options.idempotencyKey);
  return call.story;
}

/** True if the last attempt's value is what the caller wants, failure or not. */
export function keeps<T>(call: Call<T>, ending: Ending<T>): ending is { readonly value: T } {
  return call.options.keepLast === true && "value" in ending;
}

/** The last word. */
export function conclude<T>(call: Call<T>, ending: Ending<T>, error: unknown): void {
  if (keeps(call, ending)) call.resolve(ending.value);
  else call.reject(error);
}

export function errorFor<T>(call: Call<T>, reason: StopReason, ending: Ending<T>): unknown {
  const isLast = call.options.rejectWith === "last-error" && call.made > 0;
  if (isLast && "error" in ending) return ending.error;
  return errorOf(call.setting.name, call.made, reason, ending, call.story?.records ?? []);
}

export function historyOf<T>(call: Call<T>, now: number): CallHistory {
  const previousDelayMs = call.story?.previousDelayMs ?? 0;
  return { attempt: call.made, startedAt: now - elapsedMs(call), previousDelayMs };
}

/** An attempt as it is told: by its number, and that of its copy if it is one. */
export function numberOf<T>({ attempt, copy }: Call<T>): { attempt: number; copy?: number } {
  return copy > 0 ? { attempt, copy } : { attempt };
}

/** Writes a failed attempt down, and tells of it. `waitMs` is what follows; undefined at the end. */
export function record<T>(
  attempted: Call<T>,
  ending: Ending<T>,
  outcome: Outcome,
  verdict: Verdict,
  waitMs: number | undefined,
  now: number,
): void {
  const { call, moment } = attempted;
  const durationMs = Math.floor(call.setting.ticker.turn.nowMs() - moment.ms);
  const told = { ...numberOf(attempted), durationMs, ...recordOf(ending, outcome, verdict) };
  const story = storyOf(call);
  story.lastEnding = ending;
  story.records.push({
    startedAt: now - durationMs,
    ...told,
    ...(waitMs !== undefined && { waitMs }),
  });
  tell(call, { type: "attempt-failed", ...told });
}

/** There will be another attempt. */
export function putOff<T>(
  call: Call<T>,
  decision: RetryDecision | HoldDecision,
  delayMs: number,
  throttled: boolean,
): void {
  const story = storyOf(call);
  story.previousDelayMs = decision.ownDelayMs;
  story.isThrottled = throttled;
  story.isRenewed = false;
  const source = decision.kind === "hold" ? decision.by : decision.source;
  tell(call, { type: "retry", attempt: call.made + 1, delayMs, source });
}

/** True if the attempt was over before its function. */
export function isLate<T>(attempt: Call<T>): boolean {
  if (attempt.settled) attempt.timeoutMs = 0;
  return attempt.settled;
}

/** Tells of an attempt that was cut off while its function still runs. */
export function tellRunning<T>(attempt: Call<T>): void {
  if (attempt.timeoutMs && attempt.controller?.signal.aborted) {
    tell(attempt.call, { type: "attempt-still-running", ...numberOf(attempt) });
  }
}

/** What core is told of the call: its options, and the deadline of the layer above if that is first. */
export function requestOf<T>(call: Call<T>): CallRequest {
  const { options, outer, host } = call;
  const { method, idempotent = host?.idempotent, idempotencyKey, patience } = options;
  const outerAt = outer?.deadlineAt;
  const deadlineAt =
    outerAt === undefined ? options.deadlineAt : Math.min(outerAt, options.deadlineAt ?? outerAt);
  return { method, idempotent, idempotencyKey, patience, deadlineAt };
}

export function elapsedMs<T>({ setting, moment, begun = moment }: Call<T>): number {
  return Math.floor(setting.ticker.turn.nowMs() - begun.ms);
}

/** When the whole call must have ended; epoch ms. */
export function endAt<T>(call: Call<T>): number {
  const budgetAt = call.setting.clock.now() - elapsedMs(call) + call.policy.totalBudgetMs;
  return Math.min(budgetAt, requestOf(call).deadlineAt ?? budgetAt);
}

/** What is left of the whole call. */
export function leftMs<T>(call: Call<T>): number {
  return endAt(call) - call.setting.clock.now();
}

/** The most an attempt may take that begins now. */
export function attemptMs<T>(call: Call<T>): number {
  const mostMs = Math.min(call.policy.attemptTimeoutMs, Math.floor(leftMs(call)));
  return Math.max(1, mostMs);
}

export function listens<T>({ options, host }: Call<T>): boolean {
  return options.onEvent !== undefined || host?.hasListeners === true;
}

/** Tells whoever listens. */
export function tell<T>(call: Call<T>, told: Told): void {
  if (!listens(call)) return;
  const { setting, options, host } = call;
  const { name: destination } = setting;
  const { key } = options;
  const event = {
    at: setting.clock.now(),
    ...(destination !== undefined && { destination }),
    ...(key !== undefined && { key }),
    ...told,
  } as CallEvent;
  notify(options.onEvent, event);
  host?.emit(event);
}
