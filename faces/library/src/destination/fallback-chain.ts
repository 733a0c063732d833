/**
 * Fallback chain: runs the fallbacks of a call that was given up, one after the other. It also passes
 * successful values to the fallbacks that keep them.
 */
import { isRepeatable, type StopReason } from "@redrive/core";
import type { Call } from "../call/call.ts";
import { requestOf } from "../call/call-deadline.ts";
import { notify } from "../call/call-event.ts";
import { rejectionFor, settleCall } from "../call/call-result.ts";
import { emit } from "../call/emit-event.ts";
import type { AttemptResult, Fallback, FallbackContext, HandOff } from "../call/options.ts";

/** Reasons for which a substitute is better than an error. The others are mistakes of the caller. */
const FALLBACK_REASONS: readonly StopReason[] = [
  "attempts",
  "budget",
  "held",
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
];

/** The fallbacks that a destination was created with. */
export interface FallbackWiring {
  readonly onExhausted?: Fallback<never>;
  readonly fallback?: Fallback<never>;
}

export class FallbackChain {
  readonly #wiring: FallbackWiring;
  readonly #remembers: boolean;

  constructor(wiring: FallbackWiring) {
    this.#wiring = wiring;
    this.#remembers = Boolean(wiring.fallback?.remember ?? wiring.onExhausted?.remember);
  }

  remember<T>(call: Call<T>, value: T): void {
    if (!this.#remembers && call.options.fallback === undefined) return;
    const context = contextOf(call);
    for (const fallback of this.#fallbacksOf(call)) {
      notify((good: T) => fallback.remember?.(good, context), value);
    }
  }

  /** Runs the fallbacks. False if there are none for this reason; then the caller settles the call. */
  run<T>(call: Call<T>, reason: StopReason, result: AttemptResult<T>, error: unknown): boolean {
    const fallbacks = this.#fallbacksOf(call);
    if (fallbacks.length === 0 || !FALLBACK_REASONS.includes(reason)) return false;
    emit(call, { type: "fallback", reason });
    const given = error ?? rejectionFor(call, reason, result);
    const { signal } = call.options;
    // A listener may have aborted the call.
    if (signal?.aborted) {
      call.reject(signal.reason);
      return true;
    }
    signal?.addEventListener("abort", call);
    runFallbacks(fallbacks, given, contextOf(call))
      .finally(() => signal?.removeEventListener("abort", call))
      .then(call.resolve, (thrown: unknown) => {
        if (thrown === given) settleCall(call, result, error);
        else call.reject(thrown);
      });
    return true;
  }

  /** In the order in which they run. A call's own fallback replaces those of its destination. */
  #fallbacksOf<T>({ options }: Call<T>): readonly Fallback<T>[] {
    const { onExhausted, fallback } = this.#wiring;
    const all = options.fallback ? [options.fallback] : [onExhausted, fallback];
    return all.filter(Boolean) as Fallback<T>[];
  }
}

function contextOf<T>(call: Call<T>): FallbackContext {
  const { config, options, attempts } = call;
  const { name: destination = "", clock } = config;
  const handOff = handOffOf(call);
  return { destination, key: options.key, attempts, at: clock.now(), handOff };
}

/** A fallback declines by rethrowing the error; the next one is then tried. */
async function runFallbacks<T>(
  fallbacks: readonly Fallback<T>[],
  error: unknown,
  context: FallbackContext,
): Promise<T> {
  for (const fallback of fallbacks) {
    try {
      return await fallback(error, context);
    } catch (thrown) {
      if (thrown !== error) throw thrown;
    }
  }
  throw error;
}

/** Only calls that no outer layer retries are handed off. */
function handOffOf<T>(call: Call<T>): HandOff | undefined {
  const { request, idempotencyKey, method } = call.options;
  if (request === undefined || call.outer?.retries) return undefined;
  const asked = { ...requestOf(call), method: method ?? request.method ?? "POST" };
  return isRepeatable(asked) ? { request, idempotencyKey } : undefined;
}
