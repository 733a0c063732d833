/**
 * Redrive job: one redrive as it is kept in the store, so that it outlives the process that runs it.
 * Which dead letters belong to it, and which of them it has redriven, can be read off the dead
 * letters themselves: whatever a crash took of its progress is counted again.
 */
import { createHash } from "node:crypto";
import type { StoredDocument } from "../model/document-table.ts";
import type { RetryTask } from "../model/task.ts";
import type { TaskFilter } from "../model/task-query.ts";
import type { Skips } from "./skips.ts";

export type DeadFilter = Omit<TaskFilter, "status">;

export interface RedriveOrder {
  readonly tenantId: string;
  readonly filter: DeadFilter;
  /** These and no others, 1 to 1000; then `filter` is empty. */
  readonly taskIds?: readonly string[];
  /** The list of targets of the key that asks: what would go elsewhere is left. Default: anywhere. */
  readonly targets?: string;
  /** 0.1 to 10 000. Default: 10. */
  readonly ratePerSecond?: number;
  /** So many go first, and the rest waits for how they do. Whole, 0 to 100. Default: 0, all at once. */
  readonly canary?: number;
  /** Only count. */
  readonly dryRun?: boolean;
}

/** PAUSED by somebody, or by itself: then `error` says why. */
export type RedriveJobStatus = "RUNNING" | "PAUSED" | "DONE" | "CANCELLED" | "FAILED";

export interface RedriveJob {
  /** UUIDv7: what was redriven before has a smaller one. */
  readonly redriveId: string;
  readonly tenantId: string;
  readonly status: RedriveJobStatus;
  /** Frozen: what ended after the redrive began does not match. */
  readonly filter: DeadFilter;
  readonly taskIds: readonly string[] | null;
  /** Where it may send, whoever runs it and however long it takes; null: anywhere. */
  readonly targets: string | null;
  readonly ratePerSecond: number;
  readonly canary: number;
  readonly dryRun: boolean;
  /** Dead letters in the set that had not been redriven when it was counted. */
  readonly total: number;
  readonly redriven: number;
  /** Left as they are; `skips` says why, and names the first. */
  readonly skipped: number;
  readonly skips: readonly Skips[];
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly error: string | null;
}

/** A job as it is stored. */
export interface StoredJob {
  readonly job: RedriveJob;
  readonly version: number;
  /** The node that runs it, and until when it says so; another may take it then. */
  readonly runBy: string | null;
  readonly runUntil: number;
}

export const REDRIVE_KIND = "redrive";

export function documentOf({ job, version, runBy, runUntil }: StoredJob): StoredDocument {
  const { tenantId, redriveId } = job;
  const text = JSON.stringify({ job, runBy, runUntil });
  return { kind: REDRIVE_KIND, tenantId, id: redriveId, version, text };
}

export function readJob({ text, version }: StoredDocument): StoredJob {
  const stored = JSON.parse(text) as Omit<StoredJob, "version">;
  const { skips = [], targets = null } = stored.job as Partial<RedriveJob>;
  // Redrives of earlier versions tell no reasons, and were begun without a look at targets.
  return { ...stored, job: { ...stored.job, skips, targets }, version };
}

export function isOver({ status }: RedriveJob): boolean {
  return status === "DONE" || status === "CANCELLED" || status === "FAILED";
}

/**
 * The last two groups of the id that a dead letter's new task gets from this redrive: by it the
 * redrive knows its own work again, whoever asks and after any crash. 62 bits, as good as chance.
 */
export function markOf(redriveId: string, taskId: string): string {
  const hex = createHash("sha256").update(`${redriveId}\n${taskId}`).digest("hex");
  const variant = ((Number.parseInt(hex.slice(0, 1), 16) & 3) | 8).toString(16);
  return `${variant}${hex.slice(1, 4)}-${hex.slice(4, 16)}`;
}

/** What a dead letter is to a redrive; undefined: it was redriven before and is not in the set. */
export function membershipOf(
  { redriveId, taskIds }: Pick<RedriveJob, "redriveId" | "taskIds">,
  { taskId, redrivenTo }: Pick<RetryTask, "taskId" | "redrivenTo">,
): "open" | "redriven" | "skipped" | undefined {
  if (redrivenTo === null) return "open";
  if (redrivenTo.endsWith(markOf(redriveId, taskId))) return "redriven";
  return taskIds === null && redrivenTo < redriveId ? undefined : "skipped";
}
