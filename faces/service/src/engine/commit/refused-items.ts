/**
 * Refused items: what happens to an item that the store refuses because of its content. A caller that
 * waits gets the error. A settle is repeated with less content, because its claim must end. Nothing is
 * repeated forever.
 */
import type { Settle } from "../../model/batch.ts";
import type { AttemptLog } from "../../model/task.ts";
import type { SettleItem } from "./commit-queue.ts";

const REFUSED = "the store refused the log of this attempt";

/**
 * The settle to try next: without the texts and bytes of its attempt, then also without follow-up
 * tasks. Undefined: the store refused that too. The claim then stays with this process; the next
 * process settles it as abandoned.
 */
export function simplerSettle(item: SettleItem): SettleItem | undefined {
  const { settle, destination, done, refusals = 0 } = item;
  if (refusals >= 2) return undefined;
  const attempt = settle.attempt && bareLog(settle.attempt);
  const bare: Settle = { ...settle, attempt };
  if (refusals === 0) return { settle: bare, destination, done, refusals: 1 };
  const { onEnd: _, lastError: __, ...rest } = bare;
  return { settle: rest, destination, done, refusals: 2 };
}

/** Only numbers that are in range, and texts that this program wrote. */
function bareLog(attempt: AttemptLog): AttemptLog {
  return {
    attemptNumber: attempt.attemptNumber,
    startedAt: wholeOr(attempt.startedAt, 0),
    durationMs: wholeOr(attempt.durationMs, 0),
    phases: null,
    outcome: attempt.outcome,
    responseStatus: wholeOr(attempt.responseStatus, null),
    errorClass: null,
    errorMessage: REFUSED,
    responseHeaders: null,
    responseBody: null,
    nextDelayMs: wholeOr(attempt.nextDelayMs, null),
    delaySource: attempt.delaySource,
  };
}

function wholeOr<Default>(value: number | null, otherwise: Default): number | Default {
  return value !== null && Number.isSafeInteger(value) ? value : otherwise;
}
