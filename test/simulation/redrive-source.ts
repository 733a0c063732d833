/**
 * Redrive source: gives redrive jobs access to a simulated node. It works like `Redrive`, but does
 * not seal secrets.
 */
import type { Engine } from "../../faces/service/src/engine/engine.ts";
import type { CreateResult } from "../../faces/service/src/model/batch.ts";
import type { NewId } from "../../faces/service/src/model/ids.ts";
import { partitionByteOf } from "../../faces/service/src/model/partition.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { redrivenTask } from "../../faces/service/src/operations/dead-letter-redriver.ts";
import { markedId } from "../../faces/service/src/operations/redrive-job.ts";
import type { RedriveSource } from "../../faces/service/src/operations/redrive-run.ts";

export function redriveSource(engine: Engine, store: Store, newId: NewId): RedriveSource {
  return {
    now: () => engine.now(),
    newId: () => newId(engine.now()),
    get: (taskId, tenantId) => store.query.get(tenantId, taskId),
    list: (filter, page, tenantId) => store.query.list(tenantId, filter, page),
    openCircuits: (tenantId) => store.openCircuits(tenantId, 1000),
    destinationRow: (name, tenantId) => store.getDestination(tenantId, name),
    async redriveTask(taskId, tenantId, { redriveId }) {
      const source = await store.query.get(tenantId, taskId);
      if (source?.status !== "EXHAUSTED" || source.redrivenTo !== null) return;
      const now = engine.now();
      const marked = markedId(newId(now, partitionByteOf(taskId)), redriveId, taskId);
      const redriven = redrivenTask(source, undefined, marked, now);
      await new Promise<CreateResult>((resolve, reject) => {
        engine.create(redriven, null, resolve, reject);
      });
    },
  };
}
