/**
 * Callbacks: what a node of the simulation makes follow on the ends of tasks: the service's own
 * callbacks, under a policy that is short enough to end with the seed, to a destination of the world.
 */
import type { FollowUp } from "../../faces/service/src/engine/run/follow-up-tasks.ts";
import type { CancelRequest, OnEnd } from "../../faces/service/src/model/batch.ts";
import type { NewId } from "../../faces/service/src/model/ids.ts";
import type { NewTask, RetryTask } from "../../faces/service/src/model/task.ts";
import { callbackOf, callbacksOf } from "../../faces/service/src/operations/callback.ts";

/** Names the task whose end it tells of. */
export const CAUSE_LABEL = "redrive.callback";

function inSimulation(task: NewTask): NewTask {
  const destination = new URL(task.targetUrl).hostname;
  return { ...task, destination, policyId: "callback", policyVersion: 1 };
}

export function createFollowUp(newId: NewId): FollowUp {
  return (task, settle, now) => {
    const onEnd = callbacksOf(task, settle, now, newId);
    if (onEnd === undefined) return undefined;
    const entries = Object.entries(onEnd).map(([status, next]) => [status, inSimulation(next)]);
    return Object.fromEntries(entries) as OnEnd;
  };
}

/** What a client's cancel brings along, as the service does it. */
export function cancelWithCallback(task: RetryTask, now: number, newId: NewId): CancelRequest {
  const { tenantId, taskId } = task;
  if (task.callbackUrl === null) return { tenantId, taskId };
  const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
  const CANCELLED = inSimulation(callbackOf(task, end, newId(now)));
  return { tenantId, taskId, onEnd: { CANCELLED } };
}
