/**
 * Commit: carries out a batch by one call of `commit_batch`, which is one transaction and one round
 * trip, and reads the result of each item from the returned rows.
 */
import { messageOf } from "@redrive/core";
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
import { PARTITIONS } from "../rows/partitions.ts";
import { startedOf } from "../rows/task-rows.ts";
import { addAttemptDay, dayOf } from "./attempt-days.ts";
import { type BatchParams, batchParams } from "./batch-params.ts";

const PARAMS = Array.from({ length: 12 }, (_, at) => `$${at + 1}`).join(", ");
const COMMIT = `SELECT kind, item, data, body FROM redrive.commit_batch(${PARAMS})`;

export async function commit(sql: Sql, batch: Batch): Promise<CommitResult> {
  const { params, settles } = paramsOf(batch, PARTITIONS);
  const write = () => sql.run(COMMIT, [batch.now, KEY_RETENTION_MS, batch.nodeId, ...params]);
  try {
    return resultOf(batch, settles, await write());
  } catch (error) {
    if (sqlState(error) !== NO_ATTEMPT_DAY) throw error;
  }
  // The first commit of a day, if no node has prepared it.
  await addAttemptDay(sql, dayOf(batch.now));
  return resultOf(batch, settles, await write());
}

/** A value that cannot be written, such as a number that is not whole, would fail again. */
function paramsOf(batch: Batch, partitions: number): BatchParams {
  try {
    return batchParams(batch, partitions);
  } catch (error) {
    const text = messageOf(error);
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

/** The server returns no row for a create or settle with the wanted result. */
function resultOf(batch: Batch, settles: readonly number[], rows: Rows): CommitResult {
  const results: Results = {
    destinations: batch.destinations.map(() => null),
    creates: batch.creates.map(({ task, claimVersion }) => ({
      kind: "created",
      started: claimVersion === null ? null : freshClaim(task, task.taskId, batch.now),
      row: null,
    })),
    settles: batch.settles.map(({ status }) => status),
    cancels: [],
    retryNows: [],
    claims: [],
  };
  const claimed = batch.claims.map((): StartedTask[] => []);
  for (const [kind, item, data, body] of rows) {
    const at = item as number;
    if (kind === null) {
      claimed[at]?.push(startedOf(data as string, body as Uint8Array | null));
    } else if (kind === "settles") {
      // The server counts settles from 1, in the order in which they were sent.
      results.settles[settles[at - 1] ?? 0] = settleResult(Number(data));
    } else readResult(results, claimed, kind as ResultKind, at, data as string);
  }
  return results;
}

function settleResult(status: number): SettleResult {
  return status < 0 ? "fenced" : (statusName(status) as SettleResult);
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
      // The server counts creates from 1.
      results.creates[at - 1] = createResult(originalJson<NotCreated>(data));
      break;
    case "refused": {
      const row = destinationOf(originalJson<DestinationCells>(data));
      results.creates[at - 1] = { kind: "created", started: null, row };
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
