/**
 * Internal task: what the tasks have in common that the service creates itself: they report something,
 * are retried for hours, and carry a label with what they are about.
 */
import type { StopReason } from "@redrive/core";
import type { EndedStatus, NewTask, RetryTask } from "../model/task.ts";

/** Retries for hours, as senders of webhooks do. */
const POLICY_ID = "webhook";

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

/** What an internal task reports, and where it is sent. */
export interface Report {
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
export function isInternal({ labels }: Pick<NewTask, "labels">): boolean {
  for (const name in labels) if (name.startsWith(OWN_LABEL)) return true;
  return false;
}

/** The report about the end of a task. */
export function endReport(
  kind: "callback" | "dead-letter",
  { tenantId, taskId: subject }: NewTask,
  { finishedAt: now }: End,
  { url, body }: Pick<Report, "url" | "body">,
): Report {
  return { kind, subject, tenantId, url, body, now };
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
