/**
 * Layer: how a retrying layer is known to run inside another one. In process it is known by the
 * signal handed down; across a hop by the scope that `incoming` has entered. The inner one yields,
 * because layers that all retry multiply.
 */

/** A retrying layer above. */
export interface Layer {
  readonly where: "process" | "caller";
  /** When the layer above will have given up; epoch ms. */
  readonly deadlineAt: number | undefined;
  /** False if the layer above makes a single attempt: then the inner one is free to retry. */
  readonly retries: boolean;
}

/** Signals of attempts under way. A plain map: a weak one costs more than the signal itself. */
const layers = new Map<AbortSignal, Layer>();

/** Marks a signal as handed down by a layer, until it is forgotten. */
export function markSignal(signal: AbortSignal, layer: Layer): void {
  layers.set(signal, layer);
}

/** The attempt that handed the signal down is over. */
export function forgetSignal(signal: AbortSignal): void {
  layers.delete(signal);
}

let scopeOf: (() => Layer | undefined) | undefined;

/** Set by `incoming` when it is first used: until then looking for a scope costs nothing. */
export function setScope(find: () => Layer | undefined): void {
  scopeOf = find;
}

/** The layer that a call with this signal runs under, if any. */
export function layerAbove(signal: AbortSignal | undefined): Layer | undefined {
  const inProcess = signal === undefined ? undefined : layers.get(signal);
  return inProcess ?? scopeOf?.();
}
