/**
 * Views: tasks and attempts as callers see them. Headers are masked unless an allowlist names them,
 * so that an unknown header stays hidden. Payloads are included only if the caller asks for them
 * and has the scope.
 */
import { isUtf8 } from "node:buffer";
import {
  type AttemptLog,
  type Headers,
  isEnded,
  isHarmlessHeader,
  type RetryTask,
  withoutHops,
} from "../model/task.ts";
import type { DestinationHealth } from "../operations/destination-health.ts";
import type { AttemptView, TaskView } from "../schemas/task-schemas.ts";

const MASK = "***";

/** Which parts of a payload are included. */
export interface Visibility {
  /** The caller has the scope `payload:read`. */
  readonly mayReadPayload: boolean;
  /** The caller asked for bodies. */
  readonly withBody: boolean;
}

export function viewTask(task: RetryTask, { mayReadPayload, withBody }: Visibility): TaskView {
  const { status, body } = task;
  const url = (text: string) => (mayReadPayload ? text : maskQuery(text));
  return {
    taskId: task.taskId,
    tenantId: task.tenantId,
    status,
    reason: task.reason,
    idempotencyKey: task.idempotencyKey,
    destination: task.destination,
    targetUrl: url(task.targetUrl),
    method: task.method,
    headers: maskHeaders(withoutHops(task.headers)),
    bodyRef: task.bodyRef,
    policyId: task.policyId,
    policyVersion: task.policyVersion,
    idempotent: task.idempotent,
    attemptNumber: task.attemptNumber,
    nextAttemptAt: isEnded(status) ? null : task.nextAttemptAt,
    createdAt: task.createdAt,
    scheduledAt: task.scheduledAt,
    deadlineAt: task.deadlineAt,
    lastDelayMs: task.lastDelayMs,
    cancelRequestedAt: task.cancelRequestedAt,
    lastStatus: task.lastStatus,
    lastError: task.lastError,
    labels: task.labels,
    callbackUrl: task.callbackUrl === null ? null : url(task.callbackUrl),
    redrivenFrom: task.redrivenFrom,
    redrivenTo: task.redrivenTo,
    finishedAt: task.finishedAt,
    ...(withBody && mayReadPayload && body !== null && bodyFields(body)),
    ...(withBody && mayReadPayload && task.bodyRef !== null && { bodyUrl: bodyUrl(task) }),
  };
}

/** A body in the blob store may be longer than a response should be. */
function bodyUrl({ taskId }: RetryTask): string {
  return `/retry-tasks/${taskId}/body`;
}

export function viewAttempt(
  attempt: AttemptLog,
  { mayReadPayload, withBody }: Visibility,
): AttemptView {
  const { responseBody, waits, ...others } = attempt;
  const rest = { ...others, waits: [...waits] };
  if (!withBody || !mayReadPayload || responseBody === null) return rest;
  return isUtf8(responseBody)
    ? { ...rest, responseBody: Buffer.from(responseBody).toString("utf8") }
    : { ...rest, responseBodyBase64: Buffer.from(responseBody).toString("base64") };
}

function bodyFields(body: Uint8Array): Pick<TaskView, "body" | "bodyBase64"> {
  const bytes = Buffer.from(body);
  return isUtf8(bytes)
    ? { body: bytes.toString("utf8") }
    : { bodyBase64: bytes.toString("base64") };
}

function maskHeaders(headers: Headers): Record<string, string> {
  const masked = Object.entries(headers).map(([name, value]) => {
    return [name, isHarmlessHeader(name) ? value : MASK] as const;
  });
  return Object.fromEntries(masked);
}

/** Names of query parameters are harmless; their values may be tokens. */
export function maskQuery(url: string): string {
  const [path = "", query] = url.split("?", 2);
  if (query === undefined) return url;
  const masked = query.split("&").map((pair) => pair.replace(/=.*$/s, `=${MASK}`));
  return `${path}?${masked.join("&")}`;
}

/** A destination as callers see it. URLs may hold secrets in their queries. */
export function viewDestination(
  health: DestinationHealth,
  { mayReadPayload }: Pick<Visibility, "mayReadPayload">,
): DestinationHealth {
  if (mayReadPayload) return health;
  const { document, disabledTargets } = health;
  const url = document?.deadLetterUrl;
  return {
    ...health,
    document: url === undefined ? document : { ...document, deadLetterUrl: maskQuery(url) },
    disabledTargets: disabledTargets.map((target) => ({
      ...target,
      targetUrl: maskQuery(target.targetUrl),
    })),
  };
}
