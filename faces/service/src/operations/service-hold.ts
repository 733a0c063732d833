/** Service hold: names the limit of the whole service, if any, that holds a waiting task now. */
import type { Engine } from "../engine/engine.ts";
import type { RetryTask } from "../model/task.ts";

/** A clause; undefined: no such limit holds the task. */
export function serviceHoldOf(
  { serviceBudget }: Engine,
  { tenantId, attemptNumber }: RetryTask,
  now: number,
): string | undefined {
  if (attemptNumber === 0 || serviceBudget === undefined) return undefined;
  if (serviceBudget.allows(tenantId, now, false)) return undefined;
  return "the tenant has used its share of the retry budget of the whole service";
}
