/** Start alerts: connects the alerts with the engine that they watch and the intake that stores them. */
import type { Clock } from "@redrive/core";
import type { Engine } from "../../engine/engine.ts";
import type { TaskIntake } from "../../intake/task-intake.ts";
import type { NewId } from "../../model/ids.ts";
import { DEFAULT_TENANT } from "../../model/task.ts";
import type { ResolvedAlerts } from "./alert-options.ts";
import { Alerts } from "./alerts.ts";

export interface AlertParts {
  readonly clock: Clock;
  readonly engine: Engine;
  readonly newId: NewId;
}

export function startAlerts(
  options: ResolvedAlerts,
  { clock, engine, newId }: AlertParts,
  intake: Pick<TaskIntake, "create">,
): Alerts {
  const alerts = new Alerts(options, {
    clock,
    now: () => engine.now(),
    onEvent: (listener) => engine.events.listen(listener),
    oldestDueAt: () => engine.destinations.oldestDueAt,
    newTaskId: (now, key) => newId(now, engine.partitionByte(DEFAULT_TENANT, key)),
    // The key says everything about the alert, so it is its own fingerprint.
    create: (task) => intake.create(task, task.idempotencyKey),
  });
  alerts.start();
  return alerts;
}
