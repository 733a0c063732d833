/**
 * Callbacks: the follow-up tasks of a simulated node. They are the callbacks of the service, with a
 * policy that is short enough to end within the seed, and go to a destination of the world.
 */
import type { FollowUp } from "../../faces/service/src/engine/run/follow-up-tasks.ts";
import type { CancelRequest, OnEnd } from "../../faces/service/src/model/batch.ts";
import type { NewId } from "../../faces/service/src/model/ids.ts";
import type { NewTask, RetryTask } from "../../faces/service/src/model/task.ts";
import { callbackOf, callbacksOf } from "../../faces/service/src/operations/callback.ts";

/** The label that names the task whose end the callback reports. */
export const CAUSE_LABEL = "redrive.callback";

function ofThisWorld(task: NewTask): NewTask {
  const destination = new URL(task.targetUrl).hostname;
  return { ...task, destination, policyId: "callback", policyVersion: 1 };
}

export function followUpWith(newId: NewId): FollowUp {
  return (task, settle, now) => {
    const onEnd = callbacksOf(task, settle, now, newId);
    if (onEnd === undefined) return undefined;
    const entries = Object.entries(onEnd).map(([status, next]) => [status, ofThisWorld(next)]);
    return Object.fromEntries(entries) as OnEnd;
  };
}

/** The cancel request of a client, with its callback, as the service builds it. */
export function cancelRequestOf(task: RetryTask, now: number, newId: NewId): CancelRequest {
  const { tenantId, taskId } = task;
  if (task.callbackUrl === null) return { tenantId, taskId };
  const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
  const CANCELLED = ofThisWorld(callbackOf(task, end, newId(now)));
  return { tenantId, taskId, onEnd: { CANCELLED } };
}
