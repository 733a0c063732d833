/** Batch items: the items of a batch as lists for `COMMIT`. Each begins with the place of its partition. */
import type {
  CancelRequest,
  ClaimRequest,
  Create,
  OnEnd,
  Settle,
  TaskRef,
} from "../../../model/batch.ts";
import type { LaneDue } from "../../../model/lane-due.ts";
import { LANES, type NewTask } from "../../../model/task.ts";
import { packAttempt } from "../rows/attempt-codec.ts";
import type { Packable } from "../rows/message-pack.ts";
import { packHead, statusNumber } from "../rows/task-codec.ts";

export type Item = readonly Packable[];

/** The limits of the part of a claim that is made in one partition. */
export type ClaimLimits = Pick<ClaimRequest, "limit" | "aheadLimit">;

/** The fields of `insert`, in `scripts/task-script.ts`. */
function newTaskItem(place: number, task: NewTask): Packable[] {
  return [
    place,
    task.tenantId,
    task.taskId,
    task.destination,
    task.scheduledAt,
    packHead(task),
    task.body,
    task.idempotencyKey,
    task.policyId,
  ];
}

export function createItem(place: number, { task, fingerprint, claimVersion }: Create): Item {
  const { policyVersion, redrivenFrom } = task;
  return [...newTaskItem(place, task), fingerprint, claimVersion, policyVersion, redrivenFrom];
}

export function settleItem(place: number, settle: Settle): Item {
  const { attempt } = settle;
  return [
    place,
    settle.tenantId,
    settle.taskId,
    Number(settle.ref),
    settle.claimEpoch,
    statusNumber(settle.status),
    settle.reason,
    LANES.indexOf(settle.lane),
    settle.nextAttemptAt,
    settle.lastDelayMs,
    settle.abandonedCount,
    attempt && packAttempt(attempt),
    attempt?.responseStatus ?? null,
    attempt ? attempt.errorMessage : (settle.lastError ?? null),
    followItems(place, settle.onEnd),
  ];
}

function followItems(place: number, onEnd: OnEnd = {}): Item {
  const ends = [onEnd.SUCCEEDED, onEnd.EXHAUSTED, onEnd.CANCELLED];
  return ends.map((tasks) => newTaskItems(place, tasks));
}

export function cancelItem(place: number, { tenantId, taskId, onEnd }: CancelRequest): Item {
  return [place, tenantId, taskId, newTaskItems(place, onEnd?.CANCELLED)];
}

function newTaskItems(place: number, tasks: readonly NewTask[] = []): Item {
  return tasks.map((task) => newTaskItem(place, task));
}

export function refItem(place: number, { tenantId, taskId }: TaskRef): Item {
  return [place, tenantId, taskId];
}

/** `number`: the index of the claim in the batch. `version` null: nothing is claimed. */
export function claimItem(
  place: number,
  number: number,
  request: ClaimRequest,
  { limit, aheadLimit }: ClaimLimits,
  version: number | null,
): Item {
  const { tenantId, destination, lane, aheadMs } = request;
  const laneNumber = LANES.indexOf(lane);
  return [place, number, tenantId, destination, laneNumber, limit, aheadMs, aheadLimit, version];
}

export function hintItem(place: number, hint: LaneDue): Item {
  const { tenantId, destination, lane, dueAt } = hint;
  return [place, tenantId, destination, LANES.indexOf(lane), dueAt];
}
