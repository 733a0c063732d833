/**
 * Callback: the task that reports the end of another task to its caller. It is created in the same
 * commit as that end, passes the same guards as any task, and has no callback itself.
 */
import type { StopReason } from "@redrive/core";
import type { OnEnd, Settle, StartedTask } from "../model/batch.ts";
import type { NewId } from "../model/ids.ts";
import { partitionByteOf } from "../model/partition.ts";
import type { EndedStatus, NewTask, RetryTask } from "../model/task.ts";

/** Retries for hours, as senders of webhooks do. Version 0 is the preset itself. */
const POLICY = { policyId: "webhook", policyVersion: 0 } as const;

const HEADERS = { "content-type": "application/json" } as const;

/** How a task ended, as known at that moment. */
export interface End {
  readonly status: EndedStatus;
  readonly reason: StopReason | null;
  readonly attemptNumber: number;
  readonly lastStatus: number | null;
  readonly finishedAt: number;
}

/** The task that posts this end to the task's `callbackUrl`, which must not be null. */
export function callbackOf(task: NewTask, end: End, taskId: string): NewTask {
  const { tenantId, callbackUrl } = task;
  if (callbackUrl === null) throw new Error(`task ${task.taskId} has no callbackUrl`);
  return {
    ...POLICY,
    taskId,
    tenantId,
    // The same even if the end is settled again, so that the receiver can deduplicate.
    idempotencyKey: `callback-${task.taskId}`,
    destination: new URL(callbackUrl).origin,
    targetUrl: callbackUrl,
    method: "POST",
    headers: HEADERS,
    body: Buffer.from(JSON.stringify(callbackBody(task, end)), "utf8"),
    bodyRef: null,
    idempotent: true,
    deadlineAt: null,
    createdAt: end.finishedAt,
    scheduledAt: end.finishedAt,
    labels: { "redrive.callback": task.taskId },
    callbackUrl: null,
    redrivenFrom: null,
  };
}

/** Contains no payload and no header: the receiver may not be allowed to read those. */
function callbackBody(
  task: NewTask,
  { status, reason, attemptNumber, lastStatus, finishedAt }: End,
) {
  const { taskId, idempotencyKey, destination, labels, createdAt } = task;
  return {
    type: `task.${status.toLowerCase()}`,
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
  } satisfies Partial<RetryTask> & { readonly type: string };
}

/** The callback for each way in which this settle can end the task; a cancel may win. */
export function callbacksOf(
  task: StartedTask,
  settle: Settle,
  now: number,
  newId: NewId,
): OnEnd | undefined {
  if (task.callbackUrl === null) return undefined;
  const { attempt, status, reason } = settle;
  const common = {
    attemptNumber: task.attemptNumber - (attempt === null ? 1 : 0),
    lastStatus: attempt === null ? task.lastStatus : attempt.responseStatus,
    finishedAt: now,
  };
  const of = (end: Pick<End, "status" | "reason">) =>
    callbackOf(task, { ...common, ...end }, newId(now, partitionByteOf(task.taskId)));
  const cancelled = { CANCELLED: of({ status: "CANCELLED", reason: "aborted" }) };
  return status === "PENDING" ? cancelled : { ...cancelled, [status]: of({ status, reason }) };
}
