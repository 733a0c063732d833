/**
 * Message state: what must survive between two deliveries of a message. The broker keeps it with the
 * message, so its size is bounded, and what is read back is checked: anybody who can publish can
 * write it.
 */
import type { Verdict } from "@redrive/core";
import { isObject } from "@redrive/core";

export interface MessageState {
  /** Attempts so far, including lost ones. */
  readonly attempts: number;
  /** The first delivery, from which the total budget counts; epoch ms. */
  readonly startedAt: number;
  /** The policy's own wait before the latest attempt; 0 before the first retry. */
  readonly previousDelayMs: number;
  /** The latest attempt was throttled. */
  readonly isThrottled: boolean;
  /** Consecutive deliveries that ended without a result. */
  readonly lost: number;
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

/** The state after deliveries that ended without a result. */
export function adoptLost(state: MessageState, deliveries: number, now: number): MessageState {
  if (deliveries <= 0) return state;
  const attempts = state.attempts + deliveries;
  const record: DeliveryRecord = { attempt: attempts, at: now, verdict: "lost" };
  const history = withRecord(state.history, record);
  return { ...state, attempts, lost: state.lost + deliveries, history };
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
  const isCounted = isCount(attempts, MAX_COUNT) && isCount(lost, MAX_COUNT);
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
