/**
 * Imported task: from a line of an export to the task that is handed over again, or why it cannot be.
 */
import { isObject, type PolicyDocument } from "@redrive/core";
import type { TaskToCreate } from "@redrive/service/client";
import type { ExportedTask } from "./commands/export.ts";

/** What an answer of the service has in place of a value that may be secret. */
const MASK = "***";

export interface ImportChoice {
  /** Dead letters too, not only what had not ended. */
  readonly withDead: boolean;
  /** Values for headers that the export has masked, by name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export type Imported =
  | { readonly kind: "task"; readonly task: TaskToCreate }
  /** It has ended, and is history. */
  | { readonly kind: "ended" }
  | { readonly kind: "refused"; readonly why: string };

export function importedOf(line: string, choice: ImportChoice): Imported {
  const found = parsed(line);
  if (found === undefined) return refused("it is no line of `redrive export`");
  const { status, targetUrl, headers } = found.task;
  const isWanted = status === "PENDING" || status === "IN_FLIGHT";
  if (!isWanted && !(choice.withDead && status === "EXHAUSTED")) return { kind: "ended" };
  if (targetUrl.includes(`=${MASK}`)) {
    return refused("its URL is masked: export with a key that has payload:read");
  }
  const filled = Object.entries(headers).map(([name, value]) => {
    return [name, value === MASK ? choice.headers.get(name.toLowerCase()) : value] as const;
  });
  const missing = filled.filter(([, value]) => value === undefined).map(([name]) => name);
  if (missing.length > 0) {
    return refused(`${missing.join(", ")} is masked: give it with --header "${missing[0]}: ..."`);
  }
  return {
    kind: "task",
    task: taskOf(found, Object.fromEntries(filled) as Record<string, string>),
  };
}

/** Under the key that its target has seen: what is imported twice is one task. */
function taskOf({ task, policy }: ExportedTask, headers: Record<string, string>): TaskToCreate {
  const { taskId, targetUrl, method, destination, idempotent, labels, deadlineAt } = task;
  const { callbackUrl, body, bodyBase64, status, nextAttemptAt } = task;
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
    ...(policy === undefined ? { policyId: task.policyId } : { policy: policy as PolicyDocument }),
    ...(nextAttemptAt !== null && { scheduledAt: nextAttemptAt }),
    ...(deadlineAt !== null && !isDead && { deadlineAt }),
    ...(callbackUrl !== null && { callbackUrl }),
  };
}

function parsed(line: string): ExportedTask | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const task = isObject(value) ? value["task"] : undefined;
    const isOne = isObject(task) && typeof task["targetUrl"] === "string";
    return isOne && isObject(task["headers"]) ? (value as unknown as ExportedTask) : undefined;
  } catch {
    return undefined;
  }
}

function refused(why: string): Imported {
  return { kind: "refused", why };
}
