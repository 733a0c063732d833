/**
 * Callbacks: the callbacks that a simulated node creates when a task ends. The service's own code
 * creates them. Here they use a policy short enough to finish within the seed, and they go to one
 * of the simulated destinations.
 */
import type { FollowUp } from "../../faces/service/src/engine/settlement.ts";
import type { CancelRequest, OnEnd } from "../../faces/service/src/model/batch.ts";
import type { NewId } from "../../faces/service/src/model/ids.ts";
import { partitionByteOf } from "../../faces/service/src/model/partition.ts";
import type { NewTask, RetryTask } from "../../faces/service/src/model/task.ts";
import { callbackOf, followUps } from "../../faces/service/src/operations/follow-ups.ts";

/** The label that names the task whose end the callback reports. */
export const CAUSE_LABEL = "redrive.callback";

function inSimulation(task: NewTask): NewTask {
  const destination = new URL(task.targetUrl).hostname;
  return { ...task, destination, policyId: "callback", policyVersion: 1 };
}

export function createFollowUp(newId: NewId): FollowUp {
  const ofService = followUps(newId);
  return (task, settle, settings, now) => {
    const onEnd = ofService(task, settle, settings, now);
    if (onEnd === undefined) return undefined;
    const entries = Object.entries(onEnd).map(([status, tasks]) => [
      status,
      tasks.map(inSimulation),
    ]);
    return Object.fromEntries(entries) as OnEnd;
  };
}

/** A client's cancel, with the callback that the service would add to it. */
export function cancelWithCallback(task: RetryTask, now: number, newId: NewId): CancelRequest {
  const { tenantId, taskId } = task;
  if (task.callbackUrl === null) return { tenantId, taskId };
  const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
  const id = newId(now, partitionByteOf(taskId));
  const callback = inSimulation(callbackOf(task, end, id));
  return { tenantId, taskId, onEnd: { CANCELLED: [callback] } };
}
