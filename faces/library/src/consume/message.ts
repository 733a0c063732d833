/**
 * Message: what a consumer receives, what it answers, what must survive between two deliveries, and what it
 * reports. A disposition is a plain value: an adapter carries it out at its broker. The broker keeps the state
 * with the message, so its size is bounded, and what is read back is checked: anybody who can publish can write
 * it.
 */
import { assertRange, isObject, type StopReason, type Verdict } from "@redrive/core";

/** A message as an adapter received it. */
export interface Message<Body = unknown> {
  /** Identifies the message. Every delivery of it and every copy has the same id. */
  readonly id: string;
  readonly body: Body;
  /**
   * How often the broker has delivered this copy, from 1. The deliveries before this one ended without
   * a result: their consumer crashed or lost its connection. Give it only if the broker knows that;
   * receives of other processes are no losses. Default: 1.
   */
  readonly deliveries?: number | undefined;
  /**
   * How often other processes may have received the message since its state was kept. They may have
   * tried it, so its next wait is longer. It uses no attempt. Default: 0.
   */
  readonly receivesElsewhere?: number | undefined;
  /** The state of the latest disposition, which the broker kept with the message. */
  readonly state?: MessageState | undefined;
  /** No attempt ends after this instant; epoch ms. Default: no limit beyond the policy's. */
  readonly deadlineAt?: number | undefined;
  /**
   * The broker delivered the message again at once after a crash. It is then delayed before the
   * handler runs. Default: false; the broker waited for a timeout.
   */
  readonly isImmediate?: boolean | undefined;
}

/** What must happen to a message. */
export type Disposition = Acknowledge | RetryLater | Defer | DeadLetter;

/** The message is done: the broker may forget it. */
export interface Acknowledge {
  readonly kind: "ack";
  /** The id was handled before, so the handler did not run. */
  readonly isDuplicate: boolean;
}

/** An attempt failed, or its outcome was lost. Deliver the message again, not before `delayMs`. */
export interface RetryLater {
  readonly kind: "retry";
  /** At least `minDelayMs` of the consumer. */
  readonly delayMs: number;
  /** Keep it with the message. */
  readonly state: MessageState;
}

/** No attempt was made. Deliver the message again, not before `delayMs`. No attempt is used. */
export interface Defer {
  readonly kind: "defer";
  /** At least `minDelayMs` of the consumer. */
  readonly delayMs: number;
  readonly by: DeferReason;
  /** Keep it with the message. */
  readonly state: MessageState;
}

/** Move the message to the dead letters. */
export interface DeadLetter {
  readonly kind: "dead-letter";
  readonly reason: StopReason;
  /** Has every attempt, as far as it is known. */
  readonly state: MessageState;
  /** What the last attempt threw; undefined if none did. */
  readonly error: unknown;
}

/**
 * Why a message waits without an attempt: a guard of the destination holds it (its events say which),
 * it ended with an error of the program that is not taken for an error of the message, the consumer is
 * paused because of such errors, the handler asked for it, another consumer handles the same id, the
 * store of the ids fails, another suspect runs, too many messages wait for a slot, or the consumer stops.
 */
export type DeferReason =
  | "guard"
  | "program-error"
  | "paused"
  | "handler"
  | "in-progress"
  | "store"
  | "suspect"
  | "retries"
  | "overload"
  | "stop";

/** What a handler learns about its attempt. */
export interface MessageContext {
  /** From 1. Attempts whose outcome was lost in a crash count. */
  readonly attempt: number;
  /**
   * Aborted when the attempt times out, or when the consumer stops and its time to drain is over. A
   * handler that has never read it is waited for after its timeout.
   */
  readonly signal: AbortSignal;
  /** The id of the message: pass it on, so that the next service recognizes a repetition. */
  readonly idempotencyKey: string;
  /** When the message must be done; epoch ms. */
  readonly deadlineAt: number;
}

/** Handles a message. Its value is ignored, unless it is `defer(ms)`. */
export type MessageHandler<Body> = (message: Message<Body>, context: MessageContext) => unknown;

/** What a handler returns to get the message again later. */
export class DeferRequest {
  readonly delayMs: number;

  constructor(delayMs: number) {
    this.delayMs = delayMs;
  }
}

/** A day. A broker may keep a message for less. */
const MAX_DEFER_MS = 86_400_000;

/**
 * Return it from a handler to get the message again after `delayMs`, without using an attempt. 0 ms to
 * 24 h.
 */
export function defer(delayMs: number): DeferRequest {
  assertRange("delayMs", delayMs, 0, MAX_DEFER_MS);
  return new DeferRequest(delayMs);
}

export interface MessageState {
  /** Attempts so far, including lost ones. Counts no delivery in which no handler ran. */
  readonly attempts: number;
  /** The first delivery, from which the total budget counts; epoch ms. */
  readonly startedAt: number;
  /** The policy's own wait before the latest attempt; 0 before the first retry. */
  readonly previousDelayMs: number;
  /** The latest attempt was throttled. */
  readonly isThrottled: boolean;
  /** Consecutive deliveries that ended without a result. */
  readonly lost: number;
  /** Consecutive deferrals, which make the next one longer. Absent: 0. */
  readonly deferrals?: number;
  /** Handlers that ended with an error of the program and were not counted. Absent: 0. */
  readonly programErrors?: number;
  /** The oldest first. At most `MAX_RECORDS`: the first attempt and the latest ones. */
  readonly history: readonly DeliveryRecord[];
}

/** One attempt of a message. */
export interface DeliveryRecord {
  /** From 1. */
  readonly attempt: number;
  /** Epoch ms; of a lost attempt, when the loss was noticed. */
  readonly at: number;
  readonly durationMs?: number;
  /** `lost`: the consumer crashed or lost its connection. */
  readonly verdict: Verdict | "lost";
  /** The error, as `describeError` describes it. */
  readonly error?: string;
  /** The wait that followed; absent after the last attempt. */
  readonly delayMs?: number;
}

/** A message of RabbitMQ has 64 KiB for its headers. */
export const MAX_RECORDS = 20;
export const MAX_ERROR_LENGTH = 300;

/** Above what any policy allows. */
const MAX_COUNT = 1_000_000;

export function freshState(now: number): MessageState {
  return {
    attempts: 0,
    startedAt: now,
    previousDelayMs: 0,
    isThrottled: false,
    lost: 0,
    history: NO_RECORDS,
  };
}

const NO_RECORDS: readonly DeliveryRecord[] = Object.freeze([]);

/** The history with one more record. The first record stays: it often shows the cause. */
export function withRecord(
  history: readonly DeliveryRecord[],
  record: DeliveryRecord,
): readonly DeliveryRecord[] {
  const all = [...history, record];
  return all.length <= MAX_RECORDS ? all : [...all.slice(0, 1), ...all.slice(1 - MAX_RECORDS)];
}

/**
 * The state after deliveries that ended without a result. The first one in a row uses no attempt: its
 * message may have waited for a guard when its consumer ended. From then on the message is a suspect. A
 * suspect never waits in a process, so its handler ran in every further delivery that is lost.
 */
export function adoptLost(state: MessageState, deliveries: number, now: number): MessageState {
  if (deliveries <= 0) return state;
  const lost = state.lost + deliveries;
  const attempts = state.attempts + (lost - Math.max(1, state.lost));
  const attempt = Math.max(attempts, state.attempts + 1);
  const record: DeliveryRecord = { attempt, at: now, verdict: "lost" };
  return { ...state, attempts, lost, history: withRecord(state.history, record) };
}

/** Whether an attempt has failed, or may have failed in another process. */
export function isRetry({ receivesElsewhere = 0 }: Message, { attempts }: MessageState): boolean {
  return attempts > 0 || receivesElsewhere > 0;
}

export function encodeState(state: MessageState): string {
  return JSON.stringify(state);
}

/** The state that `encodeState` wrote; undefined for anything else, which then counts for nothing. */
export function decodeState(text: string | undefined): MessageState | undefined {
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return isState(value) ? value : undefined;
}

function isState(value: unknown): value is MessageState {
  if (!isObject(value)) return false;
  const { attempts, startedAt, previousDelayMs, isThrottled, lost, history } = value;
  const { deferrals = 0, programErrors = 0 } = value;
  const counts = [attempts, lost, deferrals, programErrors];
  const isCounted = counts.every((count) => isCount(count, MAX_COUNT));
  const isTimed = isCount(startedAt) && isCount(previousDelayMs);
  if (!isCounted || !isTimed || typeof isThrottled !== "boolean") return false;
  return Array.isArray(history) && history.length <= MAX_RECORDS && history.every(isRecord);
}

function isRecord(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { attempt, at, durationMs = 0, verdict, error = "", delayMs = 0 } = value;
  const isNumbered = isCount(attempt, MAX_COUNT) && isCount(at);
  if (!isNumbered || !isCount(durationMs) || !isCount(delayMs)) return false;
  if (typeof verdict !== "string" || verdict.length > MAX_ERROR_LENGTH) return false;
  return typeof error === "string" && error.length <= MAX_ERROR_LENGTH;
}

function isCount(value: unknown, max = Number.MAX_SAFE_INTEGER): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max;
}

/** Name, code and message of an error. */
export function describeError(error: unknown): string {
  const { name, code, message } = Object(error) as Record<"name" | "code" | "message", unknown>;
  const label = typeof name === "string" ? name : typeof error;
  const coded = typeof code === "string" || typeof code === "number" ? `${label} ${code}` : label;
  const text = typeof message === "string" ? message : String(error);
  return `${coded}: ${text}`;
}

/** What `describe` returns for an error, in one bounded line. Errors may have getters that throw. */
export function describeInOneLine(describe: (error: unknown) => string, error: unknown): string {
  try {
    return describe(error).replace(/\s+/gu, " ").slice(0, MAX_ERROR_LENGTH);
  } catch {
    return "an error that cannot be described";
  }
}

// Events: what a consumer reports while it handles messages. They have ids, numbers and classes, never a body.

interface EventBase {
  /** Epoch ms. */
  readonly at: number;
  /** Name of the consumer. */
  readonly consumer: string;
}

interface MessageEvent extends EventBase {
  /** Id of the message. */
  readonly id: string;
}

interface Handled extends MessageEvent {
  readonly type: "handled";
  readonly attempt: number;
  readonly durationMs: number;
}

/** The id was handled before, so the handler did not run. */
interface DuplicateSkipped extends MessageEvent {
  readonly type: "duplicate";
}

interface MessageRetried extends MessageEvent {
  readonly type: "retry";
  /** The attempt that failed. */
  readonly attempt: number;
  readonly verdict: Verdict;
  readonly error: unknown;
  readonly delayMs: number;
}

interface MessageDeferred extends MessageEvent {
  readonly type: "defer";
  readonly by: DeferReason;
  readonly delayMs: number;
  /** With `program-error`: what the handler threw. */
  readonly error?: unknown;
}

interface DeadLettered extends MessageEvent {
  readonly type: "dead-letter";
  /** Attempts that were made. */
  readonly attempts: number;
  readonly reason: StopReason;
  readonly error: unknown;
}

/** Earlier deliveries of a message ended without a result: a consumer crashed or was cut off. */
interface DeliveryLost extends MessageEvent {
  readonly type: "lost";
  /** Consecutive deliveries without a result. */
  readonly lost: number;
  /** The wait before the next attempt; 0 if the broker has waited. */
  readonly delayMs: number;
}

/**
 * An attempt timed out and its handler still runs. If it has never read its signal, its message waits for it.
 * Otherwise it may overlap with the next attempt.
 */
interface HandlerStillRunning extends MessageEvent {
  readonly type: "still-running";
  readonly attempt: number;
}

/** The store of the ids failed: to begin (the message is deferred), or to record the end. */
interface StoreFailed extends MessageEvent {
  readonly type: "store-failed";
  readonly error: unknown;
}

/** Most messages end with errors of the program. The consumer takes no messages until a probe succeeds. */
interface ConsumerPaused extends EventBase {
  readonly type: "paused";
  /** Errors of the program among the latest messages that ended, and the number of those messages. */
  readonly errors: number;
  readonly ends: number;
  /** The latest of these errors. */
  readonly error: unknown;
  /** When one message is tried again; epoch ms. */
  readonly probeAt: number;
}

/** The consumer takes messages again. */
interface ConsumerResumed extends EventBase {
  readonly type: "resumed";
  readonly pausedMs: number;
}

/** The connection to the broker failed or was lost. The adapter connects again. */
interface BrokerFailed extends EventBase {
  readonly type: "broker-failed";
  readonly error: unknown;
  /** The wait before the next try. */
  readonly delayMs: number;
}

/** The broker works again after `broker-failed`. */
interface BrokerRecovered extends EventBase {
  readonly type: "broker-recovered";
}

export type ConsumeEvent =
  | Handled
  | DuplicateSkipped
  | MessageRetried
  | MessageDeferred
  | DeadLettered
  | DeliveryLost
  | HandlerStillRunning
  | StoreFailed
  | ConsumerPaused
  | ConsumerResumed
  | BrokerFailed
  | BrokerRecovered;

/** An event without the fields that every event has. */
export type ConsumeEventDetails<E = ConsumeEvent> = E extends ConsumeEvent
  ? Omit<E, "at" | "consumer">
  : never;
