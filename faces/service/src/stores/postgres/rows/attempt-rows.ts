/**
 * Attempt rows: an attempt as JSON, which the server does not read, and the body of its response.
 */
import type { AttemptLog } from "../../../model/task.ts";
import type { Cell } from "../connection/cells.ts";

export function logOf(attempt: AttemptLog): string {
  return JSON.stringify({ ...attempt, responseBody: undefined });
}

export function attemptOf([log, body]: readonly Cell[]): AttemptLog {
  const attempt = JSON.parse(log as string) as AttemptLog;
  return { ...attempt, responseBody: (body ?? null) as AttemptLog["responseBody"] };
}
