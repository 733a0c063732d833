/**
 * Unreadable policy: holds the tasks whose policy this version of Redrive cannot read. They wait
 * without using an attempt. They are checked again every ten minutes, and at once when the policy is
 * replaced.
 */
import type { Settle, StartedTask } from "../../model/batch.ts";
import type { PolicyRef } from "../../model/policy-cache.ts";
import { laneOf } from "../../model/task.ts";
import { abandonedLogOf, releaseOf } from "./settlement.ts";

const CHECK_INTERVAL_MS = 600_000;

const PREFIX = "held: version ";

/** The last error of a held task. */
function heldText({ policyId, policyVersion }: PolicyRef, reason: string): string {
  return `${PREFIX}${policyVersion} of policy ${JSON.stringify(policyId)} cannot be read: ${reason}`;
}

/** Does the task wait because its policy could not be read? */
export function isHeldByPolicy({ lastError }: { readonly lastError: string | null }): boolean {
  return lastError?.startsWith(PREFIX) ?? false;
}

/** The settle that returns a claim. No request was sent. */
export function holdOf(task: StartedTask, reason: string, now: number): Settle {
  const lastError = heldText(task, reason);
  return { ...releaseOf(task, now + CHECK_INTERVAL_MS), lastError };
}

/**
 * The settle of a claim whose node is gone. A request may have been sent, so the attempt counts. What
 * follows is decided once the policy can be read.
 */
export function abandonedHoldOf(task: StartedTask, reason: string, now: number): Settle {
  const abandonedCount = task.abandonedCount + 1;
  return {
    ...releaseOf(task, now + CHECK_INTERVAL_MS),
    lane: laneOf(task.attemptNumber, abandonedCount),
    abandonedCount,
    attempt: abandonedLogOf(task, now, heldText(task, reason)),
  };
}
