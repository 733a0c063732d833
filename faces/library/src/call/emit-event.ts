/**
 * Emit event: sends a call's events to its own listener and to those of its destination. Without
 * listeners no event is created.
 */
import { type Attempt, type Call, destinationOf } from "./call.ts";
import { type CallEvent, type EventDetails, notify } from "./call-event.ts";

export function hasListener<T>(call: Call<T>): boolean {
  return call.options.onEvent !== undefined || call.destination?.hasListeners === true;
}

export function emit<T>(call: Call<T>, details: EventDetails): void {
  if (!hasListener(call)) return;
  const { config, options } = call;
  const destination = destinationOf(call);
  const at = config.clock.now();
  const event = { at, ...destination?.labelsOf(call), ...details } as CallEvent;
  notify(options.onEvent, event);
  destination?.emit(event);
}

/** Emits that an attempt was aborted while its operation still runs. */
export function emitStillRunning<T>(attempt: Attempt<T>): void {
  if (attempt.timeoutMs && attempt.controller?.signal.aborted) {
    emit(attempt.call, { type: "attempt-still-running", ...attemptNumbers(attempt) });
  }
}

/** The attempt's number, and the number of the copy if it is a hedged one. */
export function attemptNumbers<T>({ call, attempt, copy }: Attempt<T>): {
  attempt: number;
  copy?: number;
} {
  return destinationOf(call) && copy > 0 ? { attempt, copy } : { attempt };
}
