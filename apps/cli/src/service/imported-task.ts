/** Imported task: turns a line of an export into a task to create, or says why it cannot. */
import { type PolicyDocument, RedriveError } from "@redrive/core";
import type { TaskToCreate } from "@redrive/service/client";
import { type ExportedTask, parseExportedTask } from "./exported-task.ts";

/** The service returns this in place of a value that may be secret. */
const MASK = "***";

export interface ImportOptions {
  /** Import dead letters too, not only unfinished tasks. */
  readonly withDead: boolean;
  /** Values for headers that the export masks, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
}

export type ImportLine =
  | { readonly kind: "task"; readonly task: TaskToCreate }
  /** The task has ended and is not imported. */
  | { readonly kind: "ended" };

/** Throws `INVALID_IMPORT` if the line is invalid or a required value is masked. */
export function parseImportLine(line: string, options: ImportOptions): ImportLine {
  const found = parseExportedTask(line);
  const { status, targetUrl, headers } = found;
  const isUnfinished = status === "PENDING" || status === "IN_FLIGHT";
  if (!isUnfinished && !(options.withDead && status === "EXHAUSTED")) return { kind: "ended" };
  if (targetUrl.includes(`=${MASK}`)) {
    throw invalidImport("the URL is masked: export with a key that has the scope payload:read");
  }
  return { kind: "task", task: taskToCreate(found, unmaskHeaders(headers, options.headers)) };
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
      `${missing.join(", ")} is masked: set it with --header "${missing[0]}: ..."`,
    );
  }
  const filled = Object.entries(headers).map(([name, value]) => [
    name,
    value === MASK ? (given.get(name.toLowerCase()) ?? MASK) : value,
  ]);
  return Object.fromEntries(filled);
}

/** Keeps the idempotency key that the target has seen, so that importing twice creates one task. */
function taskToCreate(task: ExportedTask, headers: Record<string, string>): TaskToCreate {
  const { taskId, targetUrl, method, destination, idempotent, labels, deadlineAt } = task;
  const { callbackUrl, body, bodyBase64, bodyRef, status, nextAttemptAt, policy, policyId } = task;
  const isDead = status === "EXHAUSTED";
  return {
    targetUrl,
    method,
    headers,
    destination,
    idempotent,
    labels: ownLabels(labels),
    idempotencyKey: task.idempotencyKey ?? taskId,
    ...(body !== undefined && { body }),
    ...(bodyBase64 !== undefined && { bodyBase64 }),
    // Without its file, the service refuses it unless it has the blobs of the exporting one.
    ...(typeof bodyRef === "string" && { bodyRef }),
    ...(policy === undefined ? { policyId } : { policy: policy as PolicyDocument }),
    ...(nextAttemptAt !== null && { scheduledAt: nextAttemptAt }),
    ...(deadlineAt !== null && !isDead && { deadlineAt }),
    ...(callbackUrl !== null && { callbackUrl }),
  };
}

function invalidImport(why: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", why);
}

/** The service sets labels that begin with `redrive.` itself, and refuses them. */
function ownLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(labels).filter(([name]) => !name.startsWith("redrive.")),
  );
}
