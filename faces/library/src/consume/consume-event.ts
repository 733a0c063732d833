/**
 * Consume event: what a consumer reports while it handles messages. Events have ids, numbers and
 * classes, never a body.
 */
import type { StopReason, Verdict } from "@redrive/core";
import type { DeferReason } from "./message.ts";

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

export interface Handled extends MessageEvent {
  readonly type: "handled";
  readonly attempt: number;
  readonly durationMs: number;
}

/** The id was handled before, so the handler did not run. */
export interface DuplicateSkipped extends MessageEvent {
  readonly type: "duplicate";
}

export interface MessageRetried extends MessageEvent {
  readonly type: "retry";
  /** The attempt that failed. */
  readonly attempt: number;
  readonly verdict: Verdict;
  readonly error: unknown;
  readonly delayMs: number;
}

export interface MessageDeferred extends MessageEvent {
  readonly type: "defer";
  readonly by: DeferReason;
  readonly delayMs: number;
}

export interface DeadLettered extends MessageEvent {
  readonly type: "dead-letter";
  /** Attempts that were made. */
  readonly attempts: number;
  readonly reason: StopReason;
  readonly error: unknown;
}

/** Earlier deliveries of a message ended without a result: a consumer crashed or was cut off. */
export interface DeliveryLost extends MessageEvent {
  readonly type: "lost";
  /** Consecutive deliveries without a result. */
  readonly lost: number;
  /** The wait before the next attempt; 0 if the broker has waited. */
  readonly delayMs: number;
}

/** An attempt timed out and its handler still runs. It may overlap with the next attempt. */
export interface HandlerStillRunning extends MessageEvent {
  readonly type: "still-running";
  readonly attempt: number;
}

/** The store of the ids failed: to begin (the message is deferred), or to record the end. */
export interface StoreFailed extends MessageEvent {
  readonly type: "store-failed";
  readonly error: unknown;
}

/** The connection to the broker failed or was lost. The adapter connects again. */
export interface BrokerFailed extends EventBase {
  readonly type: "broker-failed";
  readonly error: unknown;
  /** The wait before the next try. */
  readonly delayMs: number;
}

/** The broker works again after `broker-failed`. */
export interface BrokerRecovered extends EventBase {
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
  | BrokerFailed
  | BrokerRecovered;

/** An event without the fields that every event has. */
export type ConsumeEventDetails<E = ConsumeEvent> = E extends ConsumeEvent
  ? Omit<E, "at" | "consumer">
  : never;
