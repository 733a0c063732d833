/**
 * Visibility: how long SQS hides a message, in its whole seconds. SQS allows 12 hours in total, counted
 * from the receive.
 */

/** 12 hours, the longest visibility timeout of SQS. */
export const MAX_VISIBILITY_SECONDS = 43_200;

/**
 * The visibility timeout for a wait that begins `elapsedMs` after the receive. Never shorter than the
 * wait, unless SQS does not allow it. At least a second: a message never comes back at once.
 */
export function visibilitySeconds(delayMs: number, elapsedMs: number): number {
  const left = MAX_VISIBILITY_SECONDS - Math.ceil(Math.max(0, elapsedMs) / 1000);
  return Math.max(1, Math.min(Math.ceil(delayMs / 1000), left));
}
