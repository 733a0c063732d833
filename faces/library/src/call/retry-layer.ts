/**
 * Retry layer: how a call detects that it runs inside another retrying layer. In the same process, the
 * abort signal passed down identifies the outer layer; across a network hop, the scope that `incoming`
 * enters does. The inner layer yields, because the attempts of nested retries multiply.
 */

/** A layer that may retry: a call in this process, or the caller of the request being served. */
export interface RetryLayer {
  readonly location: "process" | "caller";
  /** When the layer gives up; epoch ms. */
  readonly deadlineAt: number | undefined;
  /** False if the layer makes a single attempt. Then an inner layer may retry. */
  readonly retries: boolean;
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

let lookUpScope: (() => RetryLayer | undefined) | undefined;

/** `incoming` sets it on first use. Until then the lookup costs nothing. */
export function setScopeLookup(lookUp: () => RetryLayer | undefined): void {
  lookUpScope = lookUp;
}

/** The layer around a call with this signal, if any. */
export function outerLayer(signal: AbortSignal | undefined): RetryLayer | undefined {
  const inProcess = signal === undefined ? undefined : layers.get(signal);
  return inProcess ?? lookUpScope?.();
}
