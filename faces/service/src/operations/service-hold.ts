/** Service hold: names the limit of the whole service, if any, that holds a waiting task now. */
import type { Engine } from "../engine/engine.ts";
import { originOf } from "../engine/schedule/origin.ts";
import type { RetryTask } from "../model/task.ts";

/** A clause; undefined: no such limit holds the task. */
export function serviceHoldOf(engine: Engine, task: RetryTask, now: number): string | undefined {
  return budgetHold(engine, task, now) ?? slotHold(engine, task, now);
}

function budgetHold(
  { serviceBudget }: Engine,
  { tenantId, attemptNumber }: RetryTask,
  now: number,
): string | undefined {
  const isHeld = attemptNumber > 0 && serviceBudget?.allows(tenantId, now, false) === false;
  return isHeld ? "the tenant has used its share of the service's retry budget" : undefined;
}

function slotHold(
  { attemptSlots }: Engine,
  { tenantId, targetUrl }: RetryTask,
  now: number,
): string | undefined {
  const origin = originOf(targetUrl);
  switch (attemptSlots.limitOf({ tenantId, origin }, now)) {
    case "node":
      return "the node runs as many attempts as it may run at once for the tenant";
    case "origin":
      return `the node runs as many attempts to ${origin} as it may run at once for the tenant`;
    case "shortage":
      return "the node lacks files, memory or ports, and waits for a moment";
    case undefined:
      return undefined;
  }
}
