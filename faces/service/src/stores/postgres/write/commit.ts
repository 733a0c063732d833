/**
 * Commit: carries out a batch by one call of `commit_batch`, which is one transaction and one round
 * trip, and reads the result of each item from the returned rows.
 */
import {
  type Batch,
  type CancelResult,
  type ClaimResult,
  type CommitResult,
  type CreateResult,
  freshClaim,
  type RetryNowResult,
  type SettleResult,
  type StartedTask,
} from "../../../model/batch.ts";
import type { DestinationRow } from "../../../model/destination-row.ts";
import { KEY_RETENTION_MS } from "../../../model/store.ts";
import { StoreRefusedError } from "../../../model/store-errors.ts";
import type { Cell } from "../connection/cells.ts";
import { NO_ATTEMPT_DAY, sqlState } from "../connection/failure.ts";
import type { Rows, Sql } from "../connection/sql.ts";
import { originalJson } from "../connection/stored-text.ts";
import { laneName, statusName } from "../rows/codes.ts";
import { type DestinationCells, destinationOf } from "../rows/destination-rows.ts";
import { type ClaimCells, startedOf } from "../rows/task-rows.ts";
import { addAttemptDay, dayOf } from "./attempt-days.ts";
import { type BatchText, batchText } from "./batch-text.ts";

const COMMIT = `SELECT kind, item, data, payload, body
  FROM redrive.commit_batch($1, $2, $3, $4, $5)`;

export async function commit(sql: Sql, batch: Batch, partitions: number): Promise<CommitResult> {
  const { json, bytes } = textOf(batch, partitions);
  const write = () => sql.run(COMMIT, [batch.now, KEY_RETENTION_MS, batch.nodeId, json, bytes]);
  try {
    return resultOf(batch, await write());
  } catch (error) {
    if (sqlState(error) !== NO_ATTEMPT_DAY) throw error;
  }
  // The first commit of a day, if no node has prepared it.
  await addAttemptDay(sql, dayOf(batch.now));
  return resultOf(batch, await write());
}

/** A value that is not JSON, such as a BigInt, would fail again. */
function textOf(batch: Batch, partitions: number): BatchText {
  try {
    return batchText(batch, partitions);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new StoreRefusedError(`an item cannot be written: ${text}`, { cause: error });
  }
}

/** Mutable while it is read. */
interface Results {
  readonly destinations: (DestinationRow | null)[];
  readonly creates: CreateResult[];
  readonly settles: SettleResult[];
  readonly cancels: CancelResult[];
  readonly retryNows: RetryNowResult[];
  readonly claims: ClaimResult[];
}

function resultOf(batch: Batch, rows: Rows): CommitResult {
  const results: Results = {
    destinations: batch.destinations.map(() => null),
    creates: [],
    // The server returns no row for an item that changed nothing.
    settles: batch.settles.map(() => "fenced"),
    cancels: [],
    retryNows: [],
    claims: [],
  };
  const claimed = batch.claims.map((): StartedTask[] => []);
  for (const [kind, item, data, payload = null, body = null] of rows) {
    const at = item as number;
    if (kind === "claimed") {
      claimed[at]?.push(startedOf(numbersOf(data) as ClaimCells, payload, body));
    } else if (kind === "created" || kind === "settled") {
      readUsual(batch, results, kind, numbersOf(data), numbersOf(payload));
    } else readResult(results, claimed, kind as ResultKind, at, data as string);
  }
  return results;
}

/** Reads an array of numbers; null: there is none. */
function numbersOf(array: Cell | undefined): readonly (number | null)[] {
  if (typeof array !== "string" || array === "{}") return [];
  const texts = array.slice(1, -1).split(",");
  return texts.map((text) => (text === "NULL" ? null : Number(text)));
}

/** Reads a row that holds the results of many items. */
function readUsual(
  { creates, now }: Batch,
  results: Results,
  kind: "created" | "settled",
  items: readonly (number | null)[],
  values: readonly (number | null)[],
): void {
  for (const [index, item] of items.entries()) {
    const at = item as number;
    const value = values[index] as number;
    if (kind === "settled") {
      results.settles[at] = statusName(value) as SettleResult;
      continue;
    }
    const task = creates[at]?.task;
    // A claimed task has a negative ref.
    const started = value < 0 && task !== undefined ? freshClaim(task, -value, now) : null;
    results.creates[at] = { kind: "created", started, row: null };
  }
}

type ResultKind = Exclude<keyof Results, "settles"> | "refused";

/** Reads a row that holds the result of one item. */
function readResult(
  results: Results,
  claimed: readonly (readonly StartedTask[])[],
  kind: ResultKind,
  at: number,
  data: string,
): void {
  switch (kind) {
    case "destinations":
      results.destinations[at] = destinationOf(originalJson<DestinationCells>(data));
      break;
    case "creates":
      results.creates[at] = createResult(originalJson<NotCreated>(data));
      break;
    case "refused": {
      const row = destinationOf(originalJson<DestinationCells>(data));
      results.creates[at] = { kind: "created", started: null, row };
      break;
    }
    case "cancels":
      results.cancels[at] = cancelResult(originalJson<readonly Cell[]>(data));
      break;
    case "retryNows":
      results.retryNows[at] = retryNowResult(originalJson<readonly Cell[]>(data));
      break;
    case "claims": {
      const [nextDueAts, row] = originalJson<Claimed>(data);
      const tasks = claimed[at] ?? [];
      results.claims[at] = { tasks, nextDueAts, row: row && destinationOf(row) };
      break;
    }
  }
}

type Claimed = readonly [readonly (number | null)[], DestinationCells | null];

type NotCreated =
  | readonly ["replayed" | "conflict" | "redriven", string]
  | readonly ["unknown-policy"];

function createResult(found: NotCreated): CreateResult {
  return found[0] === "unknown-policy" ? { kind: found[0] } : { kind: found[0], taskId: found[1] };
}

function cancelResult([kind, detail]: readonly Cell[]): CancelResult {
  if (kind === "requested") return { kind, cancelRequestedAt: Number(detail) };
  if (kind === "ended") return { kind, status: statusName(Number(detail)) };
  return { kind: kind as "cancelled" | "unknown" };
}

function retryNowResult([kind, detail, lane]: readonly Cell[]): RetryNowResult {
  if (kind === "not-pending") return { kind, status: statusName(Number(detail)) };
  if (kind === "unknown") return { kind };
  const destination = detail as string;
  return { kind: "rescheduled", destination, lane: laneName(Number(lane)) };
}
