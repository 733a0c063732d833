/**
 * Message: what a consumer receives, and what it answers. A disposition is a plain value: an adapter
 * carries it out at its broker.
 */
import { assertRange, type StopReason } from "@redrive/core";
import type { MessageState } from "./message-state.ts";

/** A message as an adapter received it. */
export interface Message<Body = unknown> {
  /** Identifies the message. Every delivery of it and every copy has the same id. */
  readonly id: string;
  readonly body: Body;
  /**
   * How often the broker has delivered this copy, from 1. The deliveries before this one ended without
   * a result: their consumer crashed or lost its connection. Default: 1.
   */
  readonly deliveries?: number | undefined;
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
 * the handler asked for it, another consumer handles the same id, the store of the ids fails, another
 * suspect runs, too many messages wait for a slot, or the consumer stops.
 */
export type DeferReason =
  | "guard"
  | "handler"
  | "in-progress"
  | "store"
  | "suspect"
  | "overload"
  | "stop";

/** What a handler learns about its attempt. */
export interface MessageContext {
  /** From 1. Attempts whose outcome was lost in a crash count. */
  readonly attempt: number;
  /** Aborted when the attempt times out, or when the consumer stops and its time to drain is over. */
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
