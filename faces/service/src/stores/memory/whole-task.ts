/**
 * Whole task: joins what a client sent with the state of the task. Field by field: with a spread, every
 * task would get its own hidden class.
 */
import type { NewTask, RetryTask, TaskState } from "../../model/task.ts";

export function wholeTask(task: NewTask, state: TaskState): RetryTask {
  return {
    taskId: task.taskId,
    tenantId: task.tenantId,
    idempotencyKey: task.idempotencyKey,
    destination: task.destination,
    targetUrl: task.targetUrl,
    method: task.method,
    headers: task.headers,
    body: task.body,
    bodyRef: task.bodyRef,
    policyId: task.policyId,
    policyVersion: task.policyVersion,
    idempotent: task.idempotent,
    deadlineAt: task.deadlineAt,
    createdAt: task.createdAt,
    scheduledAt: task.scheduledAt,
    labels: task.labels,
    callbackUrl: task.callbackUrl,
    redrivenFrom: task.redrivenFrom,
    status: state.status,
    reason: state.reason,
    lane: state.lane,
    attemptNumber: state.attemptNumber,
    nextAttemptAt: state.nextAttemptAt,
    claimEpoch: state.claimEpoch,
    claimedBy: state.claimedBy,
    claimedAt: state.claimedAt,
    lastDelayMs: state.lastDelayMs,
    abandonedCount: state.abandonedCount,
    cancelRequestedAt: state.cancelRequestedAt,
    lastStatus: state.lastStatus,
    lastError: state.lastError,
    redrivenTo: state.redrivenTo,
    finishedAt: state.finishedAt,
  };
}
