/**
 * Imported task: from a line of an export to the task that is handed over again, or why it cannot be.
 */
import { type PolicyDocument, RedriveError } from "@redrive/core";
import type { TaskToCreate } from "@redrive/service/client";
import { type ExportedTask, parseExportedTask } from "./exported-task.ts";

/** What an answer of the service has in place of a value that may be secret. */
const MASK = "***";

export interface ImportOptions {
  /** Dead letters too, not only what had not ended. */
  readonly withDead: boolean;
  /** Values for headers that the export has masked, by name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export type ImportLine =
  | { readonly kind: "task"; readonly task: TaskToCreate }
  /** It has ended, and is history. */
  | { readonly kind: "ended" };

/** Throws `INVALID_IMPORT` for what is no line of an export, or lacks what it takes. */
export function parseImportLine(line: string, choice: ImportOptions): ImportLine {
  const found = parseExportedTask(line);
  const { status, targetUrl, headers } = found;
  const isWanted = status === "PENDING" || status === "IN_FLIGHT";
  if (!isWanted && !(choice.withDead && status === "EXHAUSTED")) return { kind: "ended" };
  if (targetUrl.includes(`=${MASK}`)) {
    throw invalidImport("its URL is masked: export with a key that has payload:read");
  }
  return { kind: "task", task: taskToCreate(found, unmaskHeaders(headers, choice.headers)) };
}

function unmaskHeaders(
  headers: ExportedTask["headers"],
  given: ImportOptions["headers"],
): Record<string, string> {
  const missing = Object.keys(headers).filter(
    (name) => headers[name] === MASK && !given.has(name.toLowerCase()),
  );
  if (missing.length > 0) {
    throw invalidImport(
      `${missing.join(", ")} is masked: give it with --header "${missing[0]}: ..."`,
    );
  }
  const filled = Object.entries(headers).map(([name, value]) => [
    name,
    value === MASK ? (given.get(name.toLowerCase()) ?? MASK) : value,
  ]);
  return Object.fromEntries(filled);
}

/** Under the key that its target has seen: what is imported twice is one task. */
function taskToCreate(task: ExportedTask, headers: Record<string, string>): TaskToCreate {
  const { taskId, targetUrl, method, destination, idempotent, labels, deadlineAt } = task;
  const { callbackUrl, body, bodyBase64, status, nextAttemptAt, policy, policyId } = task;
  const isDead = status === "EXHAUSTED";
  return {
    targetUrl,
    method,
    headers,
    destination,
    idempotent,
    labels,
    idempotencyKey: task.idempotencyKey ?? taskId,
    ...(body !== undefined && { body }),
    ...(bodyBase64 !== undefined && { bodyBase64 }),
    ...(policy === undefined ? { policyId } : { policy: policy as PolicyDocument }),
    ...(nextAttemptAt !== null && { scheduledAt: nextAttemptAt }),
    ...(deadlineAt !== null && !isDead && { deadlineAt }),
    ...(callbackUrl !== null && { callbackUrl }),
  };
}

function invalidImport(why: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", why);
}
