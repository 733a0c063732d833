/**
 * Commit hints: the lanes in which a commit makes a task wait that another node will claim, because
 * that node leases its partition. The hint is stored with the task, so the other node finds it even if
 * this one dies.
 */
import type { OnEnd, Settle } from "../../model/batch.ts";
import type { LaneDue } from "../../model/lane-due.ts";
import type { NewTask } from "../../model/task.ts";
import type { OwnPartitions } from "../node/own-partitions.ts";
import { EarliestDues } from "../schedule/earliest-dues.ts";
import type { CommitItems } from "./commit-queue.ts";

const NO_HINTS: readonly LaneDue[] = [];

/** The hints of the items, together with those that wait in the queue. */
export function hintsOf(items: CommitItems, partitions: OwnPartitions): readonly LaneDue[] {
  const { hints, creates, settles, cancels } = items;
  const count = hints.length + creates.length + settles.length + cancels.length;
  if (partitions.isSingle || count === 0) return NO_HINTS;
  const foreign = hints.filter(({ partition }) => !partitions.has(partition));
  for (const { create } of creates) addFirst(foreign, create.task, partitions);
  for (const { settle, destination } of settles) {
    addFollowUps(foreign, settle.onEnd, partitions);
    if (settle.status === "PENDING") addSettle(foreign, settle, destination.name, partitions);
  }
  for (const { request } of cancels) addFollowUps(foreign, request.onEnd, partitions);
  return foreign.length === 0 ? NO_HINTS : new EarliestDues(foreign).take();
}

function addSettle(
  foreign: LaneDue[],
  { tenantId, taskId, lane, nextAttemptAt: dueAt }: Settle,
  destination: string,
  partitions: OwnPartitions,
): void {
  const partition = partitions.of(taskId);
  if (partitions.has(partition)) return;
  foreign.push({ tenantId, destination, lane, partition, dueAt });
}

function addFirst(foreign: LaneDue[], task: NewTask, partitions: OwnPartitions): void {
  const { tenantId, taskId, destination, scheduledAt: dueAt } = task;
  const partition = partitions.of(taskId);
  if (partitions.has(partition)) return;
  foreign.push({ tenantId, destination, lane: "first", partition, dueAt });
}

/** Only those of one status are created, but a hint without a task is harmless. */
function addFollowUps(
  foreign: LaneDue[],
  onEnd: OnEnd | undefined,
  partitions: OwnPartitions,
): void {
  if (onEnd === undefined) return;
  for (const tasks of Object.values(onEnd)) {
    for (const task of tasks) addFirst(foreign, task, partitions);
  }
}
