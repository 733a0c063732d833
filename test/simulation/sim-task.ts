/**
 * Sim task: a task as the clients of the simulation create it. Field by field: with a spread, every
 * task would get its own hidden class, and reading it would cost more than most of what the seed does.
 */
import type { Engine } from "../../faces/service/src/engine/engine.ts";
import type { NewTask } from "../../faces/service/src/model/task.ts";

/** What differs from task to task. */
export type SimTaskFields = Pick<
  NewTask,
  | "tenantId"
  | "idempotencyKey"
  | "destination"
  | "targetUrl"
  | "policyId"
  | "idempotent"
  | "deadlineAt"
  | "createdAt"
  | "scheduledAt"
  | "callbackUrl"
>;

/** Where an id has its partition. */
const PARTITION_AT = 21;

/** `id` is the start of the task's id. The node chooses the partition, which ends it. */
export function simTask(id: string, fields: SimTaskFields, engine: Engine): NewTask {
  const { tenantId, idempotencyKey } = fields;
  const byte = engine.partitionByte(tenantId, idempotencyKey) ?? 0;
  const partition = byte.toString(16).padStart(2, "0");
  return {
    taskId: id.padEnd(PARTITION_AT, "-") + partition,
    tenantId,
    idempotencyKey,
    destination: fields.destination,
    targetUrl: fields.targetUrl,
    method: "POST",
    headers: {},
    body: null,
    bodyRef: null,
    policyId: fields.policyId,
    policyVersion: 1,
    idempotent: fields.idempotent,
    deadlineAt: fields.deadlineAt,
    createdAt: fields.createdAt,
    scheduledAt: fields.scheduledAt,
    labels: {},
    callbackUrl: fields.callbackUrl,
    redrivenFrom: null,
  };
}
