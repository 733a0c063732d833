/** Duplicates: counts requests and messages that arrived more than once. */
import { type Meter, metrics } from "@opentelemetry/api";
import { SCOPE } from "./scope.ts";

/** The events of `redrive/idempotency` and `redrive/consume` that mean a duplicate. */
const DUPLICATES = ["replayed", "in-progress", "mismatch", "duplicate"];

/**
 * A listener that counts duplicates as `retry.duplicates`, for `idempotency({ onEvent: countDuplicates() })`.
 * `meter` is by default the global provider's `redrive`.
 */
export function countDuplicates(
  meter: Meter = metrics.getMeter(SCOPE),
): (event: { readonly type: string }) => void {
  const duplicates = meter.createCounter("retry.duplicates", {
    unit: "{request}",
    description: "Requests and messages that arrived more than once, by what happened to them.",
  });
  return ({ type }) => {
    if (DUPLICATES.includes(type)) duplicates.add(1, { "redrive.duplicate": type });
  };
}
