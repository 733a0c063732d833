/**
 * Outbox: creates a task inside a transaction of the caller, on the caller's connection. Each statement
 * on that connection is complete in itself and returns its failures as values, so statements of the
 * caller may come between, and the transaction stays usable.
 *
 * 1. On the caller's connection: the number of the transaction, and locks that keep the policy and the
 *    destination until it ends.
 * 2. On a connection of the store: is that transaction open here, and do both exist?
 * 3. On the caller's connection: the task, its key, its counts, its hint and a NOTIFY.
 */
import type { CreateResult } from "../../../model/batch.ts";
import type { LaneDue } from "../../../model/lane-due.ts";
import { partitionOf } from "../../../model/partition.ts";
import type { CallerTransaction, OutboxCreate } from "../../../model/store.ts";
import type { NewTask } from "../../../model/task.ts";
import { inSchema } from "../connection/address.ts";
import { payloadOf } from "../connection/listener.ts";
import type { Sql } from "../connection/sql.ts";
import { originalJson, storedJson, storedText } from "../connection/stored-text.ts";
import { laneNumber } from "../rows/codes.ts";
import { PARTITIONS } from "../rows/partitions.ts";
import { NewTasks } from "./new-tasks.ts";
import { badAnswer, noAccess, notOpen, refusal, transactionFailure } from "./outbox-errors.ts";

const SIGNATURE = "redrive.enqueue_task(text, int, bigint, jsonb, bytea, text)";

/** It uses nothing of our schema: a name that is missing would end the caller's transaction. */
const BEGIN = `SELECT json_build_array(pg_current_xact_id()::text, current_database(), CASE
    WHEN to_regnamespace($3) IS NULL THEN 'missing'
    WHEN NOT has_schema_privilege(to_regnamespace($3)::oid, 'USAGE') THEN 'denied'
    WHEN to_regprocedure($4) IS NULL THEN 'missing'
    WHEN NOT has_function_privilege(to_regprocedure($4)::oid, 'EXECUTE') THEN 'denied'
    ELSE 'ready' END)::text AS answer,
  pg_advisory_xact_lock_shared(hashtextextended($1, 4)),
  pg_advisory_xact_lock_shared(hashtextextended($2, 4))`;

const PREPARE = "SELECT redrive.prepare_enqueue($1, $2, $3, $4, $5, $6)::text";

const ENQUEUE = "SELECT redrive.enqueue_task($1, $2, $3, $4, $5, $6) AS answer";

/** The caller's transaction, as its connection describes it. */
type Begun = readonly [xid: string, database: string, access: "ready" | "missing" | "denied"];
type Prepared = readonly [destinationId: number, hasPolicy: boolean];

type Answer =
  | readonly ["created" | "ended"]
  | readonly ["replayed" | "conflict", string]
  | readonly ["failed", state: string, text: string];

export async function createInTransaction(
  sql: Sql,
  tx: CallerTransaction,
  create: OutboxCreate,
): Promise<CreateResult> {
  const { task } = create;
  const { schema } = sql;
  const [xid, database, access] = await ask<Begun>(tx, BEGIN, [
    lockText(schema, "destination", task.tenantId, task.destination),
    lockText(schema, "policy", task.tenantId, task.policyId),
    schema,
    inSchema(schema, SIGNATURE),
  ]);
  if (access !== "ready") throw noAccess(access, schema, database);
  const prepared = await prepare(sql, task, xid, database);
  if (prepared === null) throw notOpen(database);
  const [destinationId, hasPolicy] = prepared;
  if (!hasPolicy) return { kind: "unknown-policy" };
  const values = [xid, destinationId, ...valuesOf(create)];
  return resultOf(await ask<Answer>(tx, inSchema(schema, ENQUEUE), values), database);
}

/** As the server's `item_lock`. */
function lockText(schema: string, kind: string, tenantId: string, name: string): string {
  return storedText([schema, kind, tenantId, name].join("\n"));
}

/** Null: the transaction is not open. */
async function prepare(
  { run }: Sql,
  { tenantId, destination, policyId, policyVersion }: NewTask,
  xid: string,
  database: string,
): Promise<Prepared | null> {
  const params = [database, xid, tenantId, destination, policyId, policyVersion];
  const [row] = await run(PREPARE, params);
  const text = row?.[0] ?? null;
  return text === null ? null : (JSON.parse(String(text)) as Prepared);
}

/** One create and its hint: whichever node leases the partition finds the task. */
function valuesOf({ task, fingerprint }: OutboxCreate): unknown[] {
  const hint = hintOf(task);
  const tasks = new NewTasks(PARTITIONS);
  tasks.add(task, { fingerprint });
  const { names, numbers, texts } = tasks;
  const { partition, tenantId, destination, dueAt } = hint;
  const hints = [[partition, tenantId, destination, laneNumber(hint.lane), dueAt]];
  const json = storedJson({ names, numbers, texts, hasBody: task.body !== null, hints });
  return [task.createdAt, json, task.body ?? new Uint8Array(), storedText(payloadOf([hint]))];
}

function hintOf({ tenantId, taskId, destination, scheduledAt }: NewTask): LaneDue {
  const partition = partitionOf(taskId, PARTITIONS);
  return { tenantId, destination, lane: "first", partition, dueAt: scheduledAt };
}

function resultOf(answer: Answer, database: string): CreateResult {
  switch (answer[0]) {
    case "created":
      return { kind: "created", started: null, row: null };
    case "ended":
      throw notOpen(database);
    case "failed":
      throw refusal(answer[1], answer[2]);
    default:
      return { kind: answer[0], taskId: answer[1] };
  }
}

/** Runs a statement of one row on the caller's connection. */
async function ask<T>(tx: CallerTransaction, text: string, values: unknown[]): Promise<T> {
  let found: { readonly rows?: readonly unknown[] } | null | undefined;
  try {
    found = await tx.query(text, values);
  } catch (error) {
    throw transactionFailure(error);
  }
  const row = found?.rows?.[0] as { readonly answer?: unknown } | null | undefined;
  if (typeof row?.answer !== "string") throw badAnswer(found);
  return originalJson<T>(row.answer);
}
