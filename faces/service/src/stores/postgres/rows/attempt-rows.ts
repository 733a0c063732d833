/**
 * Attempt rows: an attempt as JSON, which the server does not read, and the body of its response.
 */
import { type AttemptLog, NO_WAITS } from "../../../model/task.ts";
import type { Cell } from "../connection/cells.ts";

export function logOf(attempt: AttemptLog): string {
  return JSON.stringify({ ...attempt, responseBody: undefined });
}

export function attemptOf([log, body]: readonly Cell[]): AttemptLog {
  const attempt = JSON.parse(log as string) as AttemptLog;
  const responseBody = (body ?? null) as AttemptLog["responseBody"];
  // Older versions wrote no waits.
  return { ...attempt, responseBody, waits: attempt.waits ?? NO_WAITS };
}
