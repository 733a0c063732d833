/**
 * Light signal: the abort of one attempt for one listener. A real `AbortController` with a listener
 * costs more than half of what an attempt costs; whoever may abort any of thousands of attempts,
 * and hardly ever does, hands out these instead.
 */
import type { AbortSignalLike } from "@redrive/core";

export interface LightSignal extends AbortSignalLike {
  /** Tells the listener, once. */
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

  /** The latest listener replaces the one before. */
  addEventListener(_type: "abort", listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }
}
