/** Pinned task: a task under the first version of the policy `background`, which a test registers. */
import type { NewTask } from "../model/task.ts";
import { newTask } from "./store.testing.ts";

export function pinnedTask(fields: Partial<NewTask> = {}): NewTask {
  return newTask({ policyVersion: 1, ...fields });
}
