/**
 * Commit hints: the lanes in which a commit makes a task wait that another node will claim, because
 * that node leases its partition. The hint is stored with the task, so the other node finds it even if
 * this one dies.
 */
import type { OnEnd } from "../../model/batch.ts";
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
  const lanes = [
    ...hints,
    ...creates.map(({ create }) => firstLane(create.task, partitions)),
    ...settles.flatMap(({ settle, destination }) => {
      const followUps = followUpLanes(settle.onEnd, partitions);
      if (settle.status !== "PENDING") return followUps;
      const { tenantId, taskId, lane, nextAttemptAt } = settle;
      const partition = partitions.of(taskId);
      const { name } = destination;
      return [...followUps, { tenantId, destination: name, lane, partition, dueAt: nextAttemptAt }];
    }),
    ...cancels.flatMap(({ request }) => followUpLanes(request.onEnd, partitions)),
  ];
  const foreign = lanes.filter(({ partition }) => !partitions.has(partition));
  return foreign.length === 0 ? NO_HINTS : new EarliestDues(foreign).take();
}

function firstLane(task: NewTask, partitions: OwnPartitions): LaneDue {
  const { tenantId, taskId, destination, scheduledAt } = task;
  const partition = partitions.of(taskId);
  return { tenantId, destination, lane: "first", partition, dueAt: scheduledAt };
}

/** Only those of one status are created, but a hint without a task is harmless. */
function followUpLanes(onEnd: OnEnd | undefined, partitions: OwnPartitions): readonly LaneDue[] {
  const tasks = onEnd === undefined ? [] : Object.values(onEnd).flat();
  return tasks.map((task) => firstLane(task, partitions));
}
