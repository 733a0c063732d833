/**
 * Redrive job: one redrive as stored, so that it survives the process that runs it. The dead
 * letters themselves show which of them belong to it and which it has redriven, so progress that is
 * lost in a crash is counted again.
 */
import { createHash } from "node:crypto";
import { RedriveError } from "@redrive/core";
import type { StoredDocument } from "../model/document-table.ts";
import type { Reading } from "../model/stored-documents.ts";
import type { RetryTask } from "../model/task.ts";
import type { TaskFilter } from "../model/task-query.ts";

export type DeadFilter = Omit<TaskFilter, "status">;

export interface RedriveOrder {
  readonly tenantId: string;
  readonly filter: DeadFilter;
  /** Exactly these, 1 to 1000; `filter` is empty then. */
  readonly taskIds?: readonly string[];
  /**
   * The target list of the requesting key; dead letters for other targets are skipped. Default: any
   * target.
   */
  readonly targets?: string;
  /** 0.1 to 10 000. Default: 10. */
  readonly ratePerSecond?: number;
  /**
   * The number of tasks that go first; the rest waits for their result. Integer, 0 to 100. Default:
   * 0, no canary.
   */
  readonly canary?: number;
  /** Only count. */
  readonly dryRun?: boolean;
}

/** PAUSED by a caller or automatically; `error` gives the reason in the latter case. */
type RedriveJobStatus = "RUNNING" | "PAUSED" | "DONE" | "CANCELLED" | "FAILED";

export interface RedriveJob {
  /** UUIDv7: everything that was redriven earlier has a smaller id. */
  readonly redriveId: string;
  readonly tenantId: string;
  readonly status: RedriveJobStatus;
  /** Frozen: tasks that ended after the redrive started do not match. */
  readonly filter: DeadFilter;
  readonly taskIds: readonly string[] | null;
  /** The targets that it may send to, whichever node runs it; null: any target. */
  readonly targets: string | null;
  readonly ratePerSecond: number;
  readonly canary: number;
  readonly dryRun: boolean;
  /** Dead letters in the set that were not yet redriven when they were counted. */
  readonly total: number;
  readonly redriven: number;
  /** Dead letters that were not redriven; `skips` says why and names the first ones. */
  readonly skipped: number;
  readonly skips: readonly Skips[];
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly error: string | null;
  /** While it runs: what it waits for, as a clause; null: it does not wait. */
  readonly waitsFor: string | null;
}

/** A job as stored. */
export interface StoredJob {
  readonly job: RedriveJob;
  readonly version: number;
  /** The node that runs it, and the end of its lease; another node may take over after that. */
  readonly runBy: string | null;
  readonly runUntil: number;
}

export const REDRIVE_KIND = "redrive";

/**
 * A document of this kind exists for every running redrive, with the same id, so that a node finds
 * those without reading the others. Its text is the instant at which it was written. It may outlast
 * its redrive for a few seconds.
 */
export const RUNNING_KIND = "redrive-running";

export function documentOf({ job, version, runBy, runUntil }: StoredJob): StoredDocument {
  const { tenantId, redriveId } = job;
  const text = JSON.stringify({ job, runBy, runUntil });
  return { kind: REDRIVE_KIND, tenantId, id: redriveId, version, text };
}

export function readJob({ text, version }: StoredDocument): StoredJob {
  const stored = JSON.parse(text) as Omit<StoredJob, "version">;
  const { skips = [], targets = null, waitsFor = null } = stored.job as Partial<RedriveJob>;
  // Jobs of earlier versions have no skip reasons, no targets and no waits.
  return { ...stored, job: { ...stored.job, skips, targets, waitsFor }, version };
}

const STATUSES: ReadonlySet<unknown> = new Set<RedriveJobStatus>([
  "RUNNING",
  "PAUSED",
  "DONE",
  "CANCELLED",
  "FAILED",
]);

/** A job that may have been written by another version. */
export function readStoredJob(document: StoredDocument): Reading<StoredJob> {
  try {
    const value = readJob(document);
    const { redriveId, tenantId, status } = value.job;
    const isKnown = redriveId === document.id && tenantId === document.tenantId;
    if (isKnown && STATUSES.has(status)) return { kind: "read", value, ignored: [] };
    return { kind: "unreadable", reason: `its status is ${JSON.stringify(status)}` };
  } catch {
    return { kind: "unreadable", reason: "it is not a redrive in JSON" };
  }
}

export function isOver({ status }: RedriveJob): boolean {
  return status === "DONE" || status === "CANCELLED" || status === "FAILED";
}

/** The digits of the last group of a UUID. */
const MARK_DIGITS = 12;

/**
 * The last group of the id that this redrive gives to a dead letter's new task. It identifies the
 * redrive's own work, also after a crash. 48 bits, as good as random.
 */
export function markOf(redriveId: string, taskId: string): string {
  const hex = createHash("sha256").update(`${redriveId}\n${taskId}`).digest("hex");
  return hex.slice(4, 4 + MARK_DIGITS);
}

/** The id of the new task, with the mark in place of its last group. */
export function markedId(newId: string, redriveId: string, taskId: string): string {
  return newId.slice(0, -MARK_DIGITS) + markOf(redriveId, taskId);
}

/** The state of a dead letter in a redrive; undefined: redriven earlier, so not in the set. */
export function membershipOf(
  { redriveId, taskIds }: Pick<RedriveJob, "redriveId" | "taskIds">,
  { taskId, redrivenTo }: Pick<RetryTask, "taskId" | "redrivenTo">,
): "open" | "redriven" | "skipped" | undefined {
  if (redrivenTo === null) return "open";
  if (redrivenTo.endsWith(markOf(redriveId, taskId))) return "redriven";
  return taskIds === null && redrivenTo < redriveId ? undefined : "skipped";
}

// Skips: the dead letters that a redrive did not redrive, by reason, with the first task ids. A
// dead letter that cannot be redriven does not block the others, and an operator can find it.

/**
 * `redriven`: another caller was first. `target-denied`: the key of the redrive may not send there.
 * `secret-unavailable`: this node lacks the key of its secrets, and the new task could never be sent.
 */
type SkipReason = "redriven" | "unknown-policy" | "target-denied" | "secret-unavailable";

export interface Skips {
  readonly reason: SkipReason;
  readonly count: number;
  /** The reason of the first one. */
  readonly detail: string;
  /** The first task ids, at most 20. */
  readonly taskIds: readonly string[];
}

export interface Skip {
  readonly reason: SkipReason;
  readonly detail: string;
}

export const REDRIVEN: Skip = { reason: "redriven", detail: "another caller has redriven it" };

const MAX_NAMED = 20;

/** Errors that concern a single dead letter. */
const REASONS: Readonly<Record<string, SkipReason>> = {
  UNKNOWN_POLICY: "unknown-policy",
  TARGET_DENIED: "target-denied",
  SECRET_UNAVAILABLE: "secret-unavailable",
};

/** The reason to skip a dead letter; undefined: the error concerns the whole redrive. */
export function skipOf(error: unknown): Skip | undefined {
  if (!(error instanceof RedriveError) || !Object.hasOwn(REASONS, error.code)) return undefined;
  return { reason: REASONS[error.code] as SkipReason, detail: error.message };
}

export function withSkip(
  skips: readonly Skips[],
  { reason, detail }: Skip,
  taskId: string,
): readonly Skips[] {
  const known = skips.find((one) => one.reason === reason);
  if (known === undefined) return [...skips, { reason, count: 1, detail, taskIds: [taskId] }];
  const { count, taskIds } = known;
  const named = taskIds.length < MAX_NAMED ? [...taskIds, taskId] : taskIds;
  const more = { ...known, count: count + 1, taskIds: named };
  return skips.map((one) => (one === known ? more : one));
}

export function skippedIn(skips: readonly Skips[]): number {
  return skips.reduce((sum, { count }) => sum + count, 0);
}
