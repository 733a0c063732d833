/** Acknowledged id: which task the answer to a create means. */
import type { CreateResult } from "../../faces/service/src/model/batch.ts";

/** `taskId` is the id in the request. An answer may name the task that existed before. */
export function acknowledgedId(result: CreateResult, taskId: string): string {
  return "taskId" in result ? result.taskId : taskId;
}
