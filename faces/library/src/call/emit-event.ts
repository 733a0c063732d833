/**
 * Emit event: sends a call's events to its own listener and to those of its destination. Without
 * listeners no event is created.
 */
import type { Attempt, Call } from "./call.ts";
import { type CallEvent, type EventDetails, notify } from "./call-event.ts";

export function hasListener<T>({ options, destination }: Call<T>): boolean {
  return options.onEvent !== undefined || destination?.hasListeners === true;
}

export function emit<T>(call: Call<T>, details: EventDetails): void {
  if (!hasListener(call)) return;
  const { config, options } = call;
  const { name: destination } = config;
  const { key } = options;
  const event = {
    at: config.clock.now(),
    ...(destination !== undefined && { destination }),
    ...(key !== undefined && { key }),
    ...details,
  } as CallEvent;
  notify(options.onEvent, event);
  call.destination?.emit(event);
}

/** Emits that an attempt was aborted while its operation still runs. */
export function emitStillRunning<T>(attempt: Attempt<T>): void {
  if (attempt.timeoutMs && attempt.controller?.signal.aborted) {
    emit(attempt.call, { type: "attempt-still-running", ...attemptNumbers(attempt) });
  }
}

/** The attempt's number, and the number of the copy if it is a hedged one. */
export function attemptNumbers<T>({ attempt, copy }: Attempt<T>): {
  attempt: number;
  copy?: number;
} {
  return copy > 0 ? { attempt, copy } : { attempt };
}
