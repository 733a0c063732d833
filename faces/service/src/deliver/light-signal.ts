/**
 * Light signal: an abort signal for one attempt and one listener. A real `AbortController` with a
 * listener costs more than half as much as an attempt. The engine may abort any of thousands of
 * attempts but rarely does, so it uses these instead.
 */
import type { AbortSignalLike, Cancel } from "@redrive/core";

export interface LightSignal extends AbortSignalLike {
  /** Calls the listener, once. */
  abort(reason?: unknown): void;
}

export function createLightSignal(): LightSignal {
  return new OneListenerSignal();
}

class OneListenerSignal implements LightSignal {
  // Mutable state.
  aborted = false;
  reason: unknown = undefined;
  #listener: (() => void) | undefined;

  abort(reason?: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.#listener?.();
  }

  /** A new listener replaces the previous one. */
  addEventListener(_type: "abort", listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }
}

/** Calls the listener at the abort of a signal, once. */
export function onAbort(signal: AbortSignalLike, listener: () => void): Cancel {
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}
