/**
 * Attempt rows: the log of an attempt as JSON, which the server does not read, and the body of its
 * response.
 */
import { type AttemptLog, NO_WAITS } from "../../../model/task.ts";
import type { Cell } from "../connection/cells.ts";

/**
 * The attempts of a task, given expressions of its ref and of a condition on the number. The last one is
 * stored with the end of the task. Kept attempts are copies as long as the partition of their day exists.
 */
export const attemptsOf = (ref: string, condition: string) => `
  SELECT attempt_number, log, response_body FROM redrive.attempts x
  WHERE ref = ${ref} AND ${condition}
  UNION ALL
  SELECT attempt_number, log, response_body FROM redrive.kept_attempts x
  WHERE ref = ${ref} AND ${condition}
    AND NOT EXISTS (SELECT FROM redrive.attempt_days d WHERE d.day = x.day)
  UNION ALL
  SELECT attempt_number, log, response_body FROM redrive.ended_tasks x
  WHERE ref = ${ref} AND log IS NOT NULL AND ${condition}`;

/** A list: it is half as long as an object with the names of its fields. */
export function logOf(log: AttemptLog): string {
  return JSON.stringify([
    log.attemptNumber,
    log.startedAt,
    log.durationMs,
    log.phases,
    log.outcome,
    log.responseStatus,
    log.errorClass,
    log.errorMessage,
    log.responseHeaders,
    log.nextDelayMs,
    log.delaySource,
    log.waits.length === 0 ? null : log.waits,
  ]);
}

type LogCells = readonly [
  attemptNumber: number,
  startedAt: number,
  durationMs: number,
  phases: AttemptLog["phases"],
  outcome: string,
  responseStatus: number | null,
  errorClass: string | null,
  errorMessage: string | null,
  responseHeaders: AttemptLog["responseHeaders"],
  nextDelayMs: number | null,
  delaySource: string | null,
  waits: AttemptLog["waits"] | null,
];

export function attemptOf([log, body]: readonly Cell[]): AttemptLog {
  const responseBody = (body ?? null) as AttemptLog["responseBody"];
  const stored = JSON.parse(log as string) as LogCells | OlderLog;
  if (isOlder(stored)) return { ...stored, responseBody, waits: stored.waits ?? NO_WAITS };
  return {
    attemptNumber: stored[0],
    startedAt: stored[1],
    durationMs: stored[2],
    phases: stored[3],
    outcome: stored[4],
    responseStatus: stored[5],
    errorClass: stored[6],
    errorMessage: stored[7],
    responseHeaders: stored[8],
    responseBody,
    nextDelayMs: stored[9],
    delaySource: stored[10],
    waits: stored[11] ?? NO_WAITS,
  };
}

/** Before schema 3, a log was an object; still earlier, it had no waits. */
type OlderLog = Omit<AttemptLog, "responseBody" | "waits"> & Partial<Pick<AttemptLog, "waits">>;

function isOlder(log: LogCells | OlderLog): log is OlderLog {
  return !Array.isArray(log);
}
