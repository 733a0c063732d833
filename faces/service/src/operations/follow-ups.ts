/**
 * Follow-ups: the tasks that the service creates in the same commit as the end of a task: the callback
 * to its caller, and the dead letter that is posted to the `deadLetterUrl` of its destination. They
 * pass the same guards as any task, and create no further ones.
 */
import type { StopReason } from "@redrive/core";
import { attemptsAfter, type FollowUp } from "../engine/settlement.ts";
import type { CancelRequest, OnEnd, Settle, StartedTask, TaskRef } from "../model/batch.ts";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import type { NewId } from "../model/ids.ts";
import { partitionByteOf } from "../model/partition.ts";
import type { EndedStatus, Headers, NewTask, RetryTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task.ts";

/** Returns the follow-ups for each way in which a settle can end its task; a cancel may win. */
export function followUps(newId: NewId): FollowUp {
  return (task, settle, settings, now) => {
    const isForwarded = settings.deadLetterUrl !== null && settle.status === "EXHAUSTED";
    if (task.callbackUrl === null && !isForwarded) return undefined;
    return isInternal(task) ? undefined : followUpsOf(task, settle, settings, now, newId);
  };
}

function followUpsOf(
  task: StartedTask,
  settle: Settle,
  settings: DeliverySettings,
  now: number,
  newId: NewId,
): OnEnd {
  const id = () => newId(now, partitionByteOf(task.taskId));
  const of = (status: EndedStatus, reason: StopReason | null) =>
    tasksFor(task, endOf(task, settle, { status, reason, finishedAt: now }), settings, id);
  const cancelled = { CANCELLED: of("CANCELLED", "aborted") };
  const { status, reason } = settle;
  return status === "PENDING" ? cancelled : { ...cancelled, [status]: of(status, reason) };
}

function tasksFor(
  task: NewTask,
  end: End,
  { deadLetterUrl }: DeliverySettings,
  newTaskId: () => string,
): readonly NewTask[] {
  const tasks: NewTask[] = [];
  if (task.callbackUrl !== null) tasks.push(callbackOf(task, end, newTaskId()));
  if (deadLetterUrl !== null && end.status === "EXHAUSTED") {
    tasks.push(deadLetterForwardOf(task, end, deadLetterUrl, newTaskId()));
  }
  return tasks;
}

function endOf(
  task: StartedTask,
  settle: Settle,
  end: Pick<End, "status" | "reason" | "finishedAt">,
): End {
  const { attempt } = settle;
  return {
    attemptNumber: attemptsAfter(task, settle),
    lastStatus: attempt === null ? task.lastStatus : attempt.responseStatus,
    ...end,
  };
}

// Callback: the task that reports the end of another task to its caller. It is created in the same
// commit as that end, passes the same guards as any task, and has no callback itself.

/** The task that posts this end to the task's `callbackUrl`, which must not be null. */
export function callbackOf(task: NewTask, end: End, taskId: string): NewTask {
  const { callbackUrl } = task;
  if (callbackUrl === null) throw new Error(`task ${task.taskId} has no callbackUrl`);
  const body = { type: `task.${end.status.toLowerCase()}`, ...summaryOf(task, end) };
  return internalTask(endReport("callback", task, end, { url: callbackUrl, body }), taskId);
}

interface CancelParts {
  readonly engine: { now(): number };
  readonly newId: NewId;
}

/** Includes the callback task that the cancel creates. A task's callback URL never changes. */
export function cancelRequestOf(
  { engine, newId }: CancelParts,
  { tenantId, taskId }: TaskRef,
  task: RetryTask | null,
): CancelRequest {
  if (task === null || task.callbackUrl === null) return { tenantId, taskId };
  const now = engine.now();
  const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
  const id = newId(now, partitionByteOf(taskId));
  return { tenantId, taskId, onEnd: { CANCELLED: [callbackOf(task, end, id)] } };
}

// Dead letter forward: the task that posts a dead letter to the `deadLetterUrl` of its destination,
// with the request that could not be delivered. Headers that may hold secrets are left out.

function deadLetterForwardOf(
  task: NewTask,
  end: End,
  deadLetterUrl: string,
  taskId: string,
): NewTask {
  const body = {
    type: "task.dead-letter",
    ...summaryOf(task, end),
    request: {
      method: task.method,
      targetUrl: task.targetUrl,
      headers: harmless(task.headers),
      bodyBase64: task.body === null ? null : Buffer.from(task.body).toString("base64"),
      bodyRef: task.bodyRef,
    },
  };
  return internalTask(endReport("dead-letter", task, end, { url: deadLetterUrl, body }), taskId);
}

function harmless(headers: Headers): Headers {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => isHarmlessHeader(name)));
}

// Internal task: what the tasks have in common that the service creates itself: they report
// something, are retried for hours, and carry a label with what they are about.

/** Retries for hours, as senders of webhooks do. */
const POLICY_ID = "webhook";

const HEADERS = { "content-type": "application/json" } as const;

/** Begins the labels that only the service sets. */
const OWN_LABEL = "redrive.";

/** How a task ended, as known at that moment. */
interface End {
  readonly status: EndedStatus;
  readonly reason: StopReason | null;
  readonly attemptNumber: number;
  readonly lastStatus: number | null;
  readonly finishedAt: number;
}

/** What an internal task reports, and where it is sent. */
interface Report {
  /** Begins the idempotency key and ends the label. */
  readonly kind: "callback" | "dead-letter" | "alert";
  /** What the report is about: ends the idempotency key, and is the value of the label. */
  readonly subject: string;
  readonly tenantId: string;
  readonly url: string;
  readonly body: object;
  readonly now: number;
}

/** The task that posts a report. */
export function internalTask(report: Report, taskId: string): NewTask {
  const { kind, subject, tenantId, url, now } = report;
  return {
    taskId,
    tenantId,
    // The same even if the end is settled again, so that the receiver can deduplicate.
    idempotencyKey: `${kind}-${subject}`,
    destination: new URL(url).origin,
    targetUrl: url,
    method: "POST",
    headers: HEADERS,
    body: Buffer.from(JSON.stringify(report.body), "utf8"),
    bodyRef: null,
    policyId: POLICY_ID,
    // The preset itself.
    policyVersion: 0,
    idempotent: true,
    deadlineAt: null,
    createdAt: now,
    scheduledAt: now,
    labels: { [`${OWN_LABEL}${kind}`]: subject },
    callbackUrl: null,
    redrivenFrom: null,
  };
}

/** Did the service itself create the task? */
function isInternal({ labels }: Pick<NewTask, "labels">): boolean {
  for (const name in labels) if (name.startsWith(OWN_LABEL)) return true;
  return false;
}

/** Does a task with these labels post an alert? */
export function isInternalAlert(labels: NewTask["labels"] | undefined): boolean {
  return labels?.[`${OWN_LABEL}alert`] !== undefined;
}

/** The report about the end of a task. */
function endReport(
  kind: "callback" | "dead-letter",
  { tenantId, taskId: subject }: NewTask,
  { finishedAt: now }: End,
  { url, body }: Pick<Report, "url" | "body">,
): Report {
  return { kind, subject, tenantId, url, body, now };
}

/** Contains no payload and no header: the receiver may not be allowed to read those. */
function summaryOf(task: NewTask, { status, reason, attemptNumber, lastStatus, finishedAt }: End) {
  const { taskId, idempotencyKey, destination, labels, createdAt } = task;
  return {
    taskId,
    status,
    reason,
    attemptNumber,
    lastStatus,
    idempotencyKey,
    destination,
    labels,
    createdAt,
    finishedAt,
  } satisfies Partial<RetryTask>;
}
