/**
 * Internal task: what the tasks have in common that the service creates itself: they report another
 * task, are retried for hours, and carry a label with the id of that task.
 */
import type { StopReason } from "@redrive/core";
import type { EndedStatus, NewTask, RetryTask } from "../model/task.ts";

/** Retries for hours, as senders of webhooks do. Version 0 is the preset itself. */
const POLICY = { policyId: "webhook", policyVersion: 0 } as const;

const HEADERS = { "content-type": "application/json" } as const;

/** Begins the labels that only the service sets. */
const OWN_LABEL = "redrive.";

/** How a task ended, as known at that moment. */
export interface End {
  readonly status: EndedStatus;
  readonly reason: StopReason | null;
  readonly attemptNumber: number;
  readonly lastStatus: number | null;
  readonly finishedAt: number;
}

/** What an internal task is about, and where it is sent. */
export interface Report {
  /** `callback` or `dead-letter`: begins the idempotency key and ends the label. */
  readonly kind: "callback" | "dead-letter";
  readonly url: string;
  readonly body: object;
}

/** The task that posts a report about another task. */
export function internalTask(about: NewTask, end: End, report: Report, taskId: string): NewTask {
  return {
    ...POLICY,
    taskId,
    tenantId: about.tenantId,
    // The same even if the end is settled again, so that the receiver can deduplicate.
    idempotencyKey: `${report.kind}-${about.taskId}`,
    destination: new URL(report.url).origin,
    targetUrl: report.url,
    method: "POST",
    headers: HEADERS,
    body: Buffer.from(JSON.stringify(report.body), "utf8"),
    bodyRef: null,
    idempotent: true,
    deadlineAt: null,
    createdAt: end.finishedAt,
    scheduledAt: end.finishedAt,
    labels: { [`${OWN_LABEL}${report.kind}`]: about.taskId },
    callbackUrl: null,
    redrivenFrom: null,
  };
}

/** Did the service itself create the task? */
export function isInternal({ labels }: Pick<NewTask, "labels">): boolean {
  for (const name in labels) if (name.startsWith(OWN_LABEL)) return true;
  return false;
}

/** Contains no payload and no header: the receiver may not be allowed to read those. */
export function summaryOf(
  task: NewTask,
  { status, reason, attemptNumber, lastStatus, finishedAt }: End,
) {
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
