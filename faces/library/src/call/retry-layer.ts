/**
 * Retry layer: how a call detects that it runs inside another retrying layer. In the same process, the
 * abort signal passed down identifies the outer layer; across a network hop, the scope that `incoming`
 * enters does. Inside such a scope, each attempt enters one of its own, so no signal is needed there. The
 * inner layer yields, because the attempts of nested retries multiply.
 */

/** A layer that may retry: a call in this process, or the caller of the request being served. */
export interface RetryLayer {
  readonly location: "process" | "caller";
  /** When the layer gives up; epoch ms. */
  readonly deadlineAt: number | undefined;
  /** False if the layer makes a single attempt. Then an inner layer may retry. */
  readonly retries: boolean;
  /** Of a call in this process: the calls inside of it. Undefined if it has none, or has ended. */
  inner?: Set<RetryLayer> | undefined;
  /** Of a call: whether it waits for an operation that its timeout could not stop. */
  readonly isOverdue?: boolean;
  endWithOuter?(): void;
}

/** Signals of running attempts. Not a `WeakMap`, which costs more than the signal itself. */
const layers = new Map<AbortSignal, RetryLayer>();

/** Marks a signal as passed down by a layer, until `unmarkSignal`. */
export function markSignal(signal: AbortSignal, layer: RetryLayer): void {
  layers.set(signal, layer);
}

export function unmarkSignal(signal: AbortSignal): void {
  layers.delete(signal);
}

/** Combined signals of attempts, which end with their attempts. Created with the first one. */
let combined: WeakMap<AbortSignal, () => RetryLayer | undefined> | undefined;

/** Marks a signal that was combined from that of an attempt and others. */
export function markCombined(signal: AbortSignal, layer: () => RetryLayer | undefined): void {
  combined ??= new WeakMap();
  combined.set(signal, layer);
}

/** Returns the layer of a scope, or undefined once the scope has ended. */
type Scope = () => RetryLayer | undefined;

/** The async context, if the program has entered one. */
export interface ScopeStorage {
  run<Args extends unknown[], T>(
    scope: Scope | undefined,
    fn: (...args: Args) => T,
    ...args: Args
  ): T;
  getStore(): Scope | undefined;
}

let storage: ScopeStorage | undefined;

/** `incoming` sets it on first use. Until then scopes cost nothing. */
export function setScopeStorage(used: ScopeStorage): void {
  storage = used;
}

/** Runs an attempt, in a scope of its own if it is inside of one. What it leaves behind is not in it. */
export function runInScope<Attempt extends ScopedAttempt, T>(
  attempt: Attempt,
  operation: (attempt: Attempt) => T,
): T {
  const around = storage?.getStore();
  if (storage === undefined || around === undefined) return operation(attempt);
  return storage.run(() => (attempt.settled ? around() : attempt.call), operation, attempt);
}

interface ScopedAttempt {
  readonly settled: boolean;
  readonly call: RetryLayer;
}

/** The layer around a call with this signal, if any. */
export function outerLayer(signal: AbortSignal | undefined): RetryLayer | undefined {
  const inProcess =
    signal === undefined ? undefined : (layers.get(signal) ?? combined?.get(signal)?.());
  return inProcess ?? storage?.getStore()?.();
}
