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
      claimed[at]?.push(startedOf(JSON.parse(data as string) as ClaimCells, payload, body));
    } else readResult(batch, results, claimed, kind as keyof Results, at, data as string);
  }
  return results;
}

/** Reads a row that holds the result of one item. */
function readResult(
  batch: Batch,
  results: Results,
  claimed: readonly (readonly StartedTask[])[],
  kind: keyof Results,
  at: number,
  data: string,
): void {
  switch (kind) {
    case "destinations":
      results.destinations[at] = destinationOf(originalJson<DestinationCells>(data));
      break;
    case "creates":
      results.creates[at] = createResult(batch, at, originalJson<Created>(data));
      break;
    case "settles":
      results.settles[at] = statusName(Number(data)) as SettleResult;
      break;
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

type Created =
  | readonly ["created", number, boolean, DestinationCells | null]
  | readonly ["replayed" | "conflict" | "redriven", string]
  | readonly ["unknown-policy"];

function createResult({ creates, now }: Batch, at: number, created: Created): CreateResult {
  if (created[0] === "unknown-policy") return { kind: "unknown-policy" };
  if (created[0] !== "created") return { kind: created[0], taskId: created[1] };
  const [kind, ref, isClaimed, row] = created;
  const task = creates[at]?.task;
  const started = isClaimed && task !== undefined ? freshClaim(task, ref, now) : null;
  return { kind, started, row: row && destinationOf(row) };
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
