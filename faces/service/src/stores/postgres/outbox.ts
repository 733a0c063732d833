/**
 * Outbox: creates a task inside a transaction of the caller, on the caller's connection. Each statement
 * on that connection is complete in itself and returns its failures as values, so statements of the
 * caller may come between, and the transaction stays usable.
 *
 * 1. On the caller's connection: the number of the transaction, and locks that keep the policy and the
 *    destination until it ends.
 * 2. On a connection of the store: is that transaction open here, and do both exist?
 * 3. On the caller's connection: the task, its key, its counts and a NOTIFY.
 */

import { invalidArgument, messageOf, RedriveError } from "@redrive/core";
import type { CreateResult } from "../../model/batch.ts";
import { WAKE_UP_MS } from "../../model/lane-due.ts";
import { partitionOf } from "../../model/partition.ts";
import type { CallerTransaction, OutboxCreate } from "../../model/store.ts";
import type { NewTask } from "../../model/task.ts";
import { NewTasks } from "./commit.ts";
import { PARTITION_CHANNEL, payloadOf } from "./connection/listener.ts";
import {
  inSchema,
  originalJson,
  type Sql,
  sqlState,
  storedJson,
  storedText,
  storeError,
} from "./connection/sql.ts";
import { PARTITIONS } from "./schema/rows.ts";

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

const PREPARE = "SELECT redrive_functions.prepare_enqueue($1, $2, $3, $4, $5, $6)::text";

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
  const { schema, functions } = sql;
  const [xid, database, access] = await ask<Begun>(tx, BEGIN, [
    lockText(schema, "destination", task.tenantId, task.destination),
    lockText(schema, "policy", task.tenantId, task.policyId),
    schema,
    inSchema(schema, functions, SIGNATURE),
  ]);
  if (access !== "ready") throw noAccess(access, schema, database);
  const prepared = await prepare(sql, task, xid, database);
  if (prepared === null) throw notOpen(database);
  const [destinationId, hasPolicy] = prepared;
  if (!hasPolicy) return { kind: "unknown-policy" };
  const values = [xid, destinationId, ...valuesOf(create, sql.version)];
  const text = inSchema(schema, functions, ENQUEUE);
  return resultOf(await ask<Answer>(tx, text, values), database);
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

/** One create, and the wake-up for the node that leases its partition. */
function valuesOf({ task, fingerprint }: OutboxCreate, version: number): unknown[] {
  const { tenantId, taskId, destination, scheduledAt: dueAt, createdAt, body } = task;
  const tasks = new NewTasks(PARTITIONS);
  tasks.add(task, { fingerprint });
  const { names, numbers, texts } = tasks;
  const partition = partitionOf(taskId, PARTITIONS);
  const isDueSoon = dueAt <= createdAt + WAKE_UP_MS;
  const channel = isDueSoon ? PARTITION_CHANNEL + partition : null;
  const json = storedJson({ version, names, numbers, texts, hasBody: body !== null, channel });
  const notice = payloadOf([{ tenantId, destination, lane: "first", partition, dueAt }]);
  return [createdAt, json, body ?? new Uint8Array(), storedText(notice)];
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

// Outbox errors: why a task could not be stored inside a transaction of the caller. Each of them says
// what to do with the transaction.

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const FAILED_TRANSACTION = "25P02";
const READ_ONLY_TRANSACTION = "25006";

/** Either the caller has not called BEGIN, or its connection leads to another database. */
function notOpen(database: string): RedriveError {
  const text =
    "tx must be one connection, on which BEGIN was called and not yet COMMIT, to the database of the store (a pool is not one)";
  return invalidArgument(text, `no open transaction in database ${database}`);
}

/** The caller's connection finds no schema, or has no right to use it. */
function noAccess(access: "missing" | "denied", schema: string, database: string): RedriveError {
  if (access === "denied") {
    const text = `the user of tx needs USAGE of the schema ${schema} and EXECUTE of ${schema}.enqueue_task`;
    return invalidArgument(text, `neither or only one of them in database ${database}`);
  }
  const text = `tx must be connected to the database of the store, with the schema ${schema}`;
  return invalidArgument(text, `database ${database}`);
}

/** The `query` of `tx` does not return what a client of `pg` returns. */
function badAnswer(found: unknown): RedriveError {
  return invalidArgument("tx.query must resolve to { rows }, as that of a pg client", found);
}

/** The caller's connection has failed, or its transaction had failed before. */
function transactionFailure(error: unknown): RedriveError {
  const text = messageOf(error);
  const message =
    sqlState(error) === FAILED_TRANSACTION
      ? "an earlier statement of the transaction has failed"
      : `a statement on the connection of tx has failed: ${text}`;
  return new RedriveError("TRANSACTION_FAILED", `${message}: roll it back`, { cause: error });
}

/** The server refused the task, and the transaction is as it was before. */
function refusal(state: string, text: string): unknown {
  const cause = Object.assign(new Error(text), { code: state });
  const error = storeError(cause);
  // The disk is full, or the content of the task is the cause.
  if (error !== cause) return error;
  if (state === READ_ONLY_TRANSACTION) {
    return invalidArgument("the transaction of tx must be able to write", text);
  }
  const message = `the task was not stored: ${text} (${state}): roll back, and repeat the transaction`;
  return new RedriveError("TRANSACTION_FAILED", message, { cause });
}
