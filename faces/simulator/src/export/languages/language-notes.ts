/** Language notes: what the code for another language leaves out, in sentences. */
import { formatDuration, type Policy } from "@redrive/core";

export interface Abilities {
  /** Who waits: the name of the library, or "This code". */
  readonly who: string;
  /** It knows the wait before the current one. */
  readonly knowsPrevious: boolean;
}

export function languageNotes(
  policy: Policy,
  { who, knowsPrevious }: Abilities,
): readonly string[] {
  const { jitterType, delaysMs, initialDelayMs, throttleDelayMs = 0 } = policy;
  const isReplaced = jitterType === "DECORRELATED" && !knowsPrevious;
  const isThrottleOther = delaysMs === undefined && throttleDelayMs !== initialDelayMs;
  return [
    ...(isReplaced
      ? [`${who} does not know the previous wait: FULL jitter replaces DECORRELATED.`]
      : []),
    ...(isThrottleOther
      ? [
          `After a throttled response, Redrive starts at ${formatDuration(throttleDelayMs)}; this code does not.`,
        ]
      : []),
    ...(policy.respectRetryAfter ? [`${who} ignores Retry-After.`] : []),
    ...(policy.requireIdempotencyKey
      ? ["Send the same idempotency key with every attempt: the policy requires one."]
      : []),
  ];
}

/** What the caller's own predicate for errors must accept. */
export function statusNote({ retryableStatusCodes }: Policy): string {
  const statuses =
    retryableStatusCodes.length === 0
      ? "no status"
      : `the statuses ${retryableStatusCodes.join(", ")}`;
  return `Write the predicate for errors yourself: Redrive retries network errors, timeouts and ${statuses}.`;
}
