/**
 * Events: what a call tells while it runs. Typed values, made only when somebody listens; they
 * carry numbers and classes, never payloads.
 */
import type { BreakerState, DelaySource, HoldReason, StopReason, Verdict } from "@redrive/core";

interface Common {
  /** Epoch ms. */
  readonly at: number;
  /** Name of the destination, if the call has one. */
  readonly destination?: string;
  /** Which of the destination's keyed states, if the call named one. */
  readonly key?: string;
}

export interface AttemptFailed extends Common {
  readonly type: "attempt-failed";
  readonly attempt: number;
  /** Which copy of it: 1 is the first beside the original; absent for the original. */
  readonly copy?: number;
  readonly durationMs: number;
  readonly verdict: Verdict;
  /** What the other side answered, and its own id of the request, where it told. */
  readonly status?: number;
  readonly requestId?: string;
  /** What the attempt threw; absent if it returned a value that was judged a failure. */
  readonly error?: unknown;
}

export interface RetryScheduled extends Common {
  readonly type: "retry";
  /** The attempt that will be made. */
  readonly attempt: number;
  readonly delayMs: number;
  /** The policy or the server's hint; or the guard that holds a patient call. */
  readonly source: DelaySource | HoldReason;
}

/** A guard holds an attempt that is due. It starts when the guard lets it. */
export interface AttemptHeld extends Common {
  readonly type: "hold";
  readonly attempt: number;
  readonly by: HoldReason;
}

/** An attempt timed out and its function still runs: it may overlap with the next attempt. */
export interface AttemptStillRunning extends Common {
  readonly type: "attempt-still-running";
  readonly attempt: number;
  /** Which copy of it; absent for the original. */
  readonly copy?: number;
}

export interface Succeeded extends Common {
  readonly type: "success";
  readonly attempt: number;
  /** The copy that won; absent for the original. */
  readonly copy?: number;
  /** The whole call, waits included. */
  readonly durationMs: number;
}

export interface GaveUp extends Common {
  readonly type: "give-up";
  readonly reason: StopReason;
  readonly attempts: number;
  readonly error: unknown;
  /** The guard that held the call; only with the reason `held`. */
  readonly by?: HoldReason;
}

/** Another layer above already retries, so this one makes a single attempt. */
export interface Yielded extends Common {
  readonly type: "yield";
  /** Where the other layer is: in this process, or a caller of the request being served. */
  readonly to: "process" | "caller";
}

export interface Hedged extends Common {
  readonly type: "hedge";
  readonly attempt: number;
  /** Which copy: 1 is the first beside the original. */
  readonly copy: number;
  readonly afterMs: number;
}

export interface BreakerChanged extends Common {
  readonly type: "breaker";
  readonly from: BreakerState;
  readonly to: BreakerState;
}

export interface FellBack extends Common {
  readonly type: "fallback";
  readonly reason: StopReason;
}

export interface Reauthenticated extends Common {
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
  | BreakerChanged
  | FellBack
  | Reauthenticated;

/** An event as it is told, before the call adds when and where. */
export type Told<E = CallEvent> = E extends CallEvent
  ? Omit<E, "at" | "destination" | "key">
  : never;

export type CallEventType = CallEvent["type"];

/** The event of one type, or any for "*". */
export type EventOf<Type extends CallEventType | "*"> = Type extends "*"
  ? CallEvent
  : Extract<CallEvent, { readonly type: Type }>;

export type CallListener = (event: CallEvent) => void;

/**
 * Calls a listener. What it throws, or rejects with, is written to the console: it must not stop a
 * call, and an unhandled rejection would end the process.
 */
export function notify<E>(listener: ((event: E) => unknown) | undefined, event: E): void {
  const report = (error: unknown) => console.error("redrive:", error);
  try {
    const result = listener?.(event) as Partial<PromiseLike<unknown>> | undefined;
    result?.then?.(undefined, report);
  } catch (error) {
    report(error);
  }
}
