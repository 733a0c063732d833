/**
 * Call event: what a call reports to listeners while it runs. Events are typed values with numbers
 * and classes, never payloads.
 */
import type { BreakerState, DelaySource, HoldReason, StopReason, Verdict } from "@redrive/core";

interface EventBase {
  /** Epoch ms. */
  readonly at: number;
  /** Name of the destination, if the call has one. */
  readonly destination?: string;
  /** The call's key, if it has one. */
  readonly key?: string;
}

export interface AttemptFailed extends EventBase {
  readonly type: "attempt-failed";
  readonly attempt: number;
  /** Number of the hedged copy, from 1; absent for the original. */
  readonly copy?: number;
  readonly durationMs: number;
  readonly verdict: Verdict;
  /** Status of the response, and the server's request id, if present. */
  readonly status?: number;
  readonly requestId?: string;
  /** What the attempt threw; absent if it returned a value that was classified as a failure. */
  readonly error?: unknown;
}

export interface RetryScheduled extends EventBase {
  readonly type: "retry";
  /** Number of the next attempt. */
  readonly attempt: number;
  readonly delayMs: number;
  /** The policy, the server's hint, or the guard that holds a call with `patience`. */
  readonly source: DelaySource | HoldReason;
}

/** A guard holds an attempt that is due. The attempt starts when the guard admits it. */
interface AttemptHeld extends EventBase {
  readonly type: "hold";
  readonly attempt: number;
  readonly by: HoldReason;
}

/**
 * An attempt timed out and its operation still runs: it ignores its signal. If the operation has never
 * read its signal, the call waits for it; otherwise it may overlap with the next attempt.
 */
interface AttemptStillRunning extends EventBase {
  readonly type: "attempt-still-running";
  readonly attempt: number;
  /** Number of the hedged copy; absent for the original. */
  readonly copy?: number;
}

export interface Succeeded extends EventBase {
  readonly type: "success";
  readonly attempt: number;
  /** Number of the hedged copy that won; absent for the original. */
  readonly copy?: number;
  /** Status of the response, if there was one. A final response below 500, such as 404, is a success. */
  readonly status?: number;
  /** Duration of the whole call, including waits. */
  readonly durationMs: number;
}

export interface GaveUp extends EventBase {
  readonly type: "give-up";
  readonly reason: StopReason;
  readonly attempts: number;
  readonly error: unknown;
  /** The guard that held the call; only with the reason `held`. */
  readonly by?: HoldReason;
}

/** An outer layer already retries, so this call makes a single attempt. */
interface Yielded extends EventBase {
  readonly type: "yield";
  /** Where the outer layer is: in this process, or the caller of the request being served. */
  readonly to: "process" | "caller";
}

interface Hedged extends EventBase {
  readonly type: "hedge";
  readonly attempt: number;
  /** Number of the copy, from 1. */
  readonly copy: number;
  readonly afterMs: number;
}

/** The call is not hedged, because nothing declares that it may take effect twice. */
interface HedgeSkipped extends EventBase {
  readonly type: "hedge-skipped";
  readonly attempt: number;
}

interface BreakerChanged extends EventBase {
  readonly type: "breaker";
  readonly from: BreakerState;
  readonly to: BreakerState;
}

interface FellBack extends EventBase {
  readonly type: "fallback";
  readonly reason: StopReason;
}

interface Reauthenticated extends EventBase {
  readonly type: "reauthenticate";
  readonly attempt: number;
}

export type CallEvent =
  | AttemptFailed
  | RetryScheduled
  | AttemptHeld
  | AttemptStillRunning
  | Succeeded
  | GaveUp
  | Yielded
  | Hedged
  | HedgeSkipped
  | BreakerChanged
  | FellBack
  | Reauthenticated;

/** An event without the fields that every event has. */
export type EventDetails<E = CallEvent> = E extends CallEvent
  ? Omit<E, "at" | "destination" | "key">
  : never;

export type CallEventType = CallEvent["type"];

/** The event of one type, or any event for "*". */
export type EventOf<Type extends CallEventType | "*"> = Type extends "*"
  ? CallEvent
  : Extract<CallEvent, { readonly type: Type }>;

export type CallListener = (event: CallEvent) => void;

/**
 * Calls a listener. If it throws or rejects, the error goes to the console: it must not stop the call,
 * and an unhandled rejection would end the process.
 */
export function notify<E>(listener: ((event: E) => unknown) | undefined, event: E): void {
  try {
    const result = listener?.(event) as Partial<PromiseLike<unknown>> | undefined;
    result?.then?.(undefined, reportError);
  } catch (error) {
    reportError(error);
  }
}

/** For errors of the caller's own functions that nobody else would see. */
export function reportError(error: unknown): void {
  console.error("redrive:", error);
}
