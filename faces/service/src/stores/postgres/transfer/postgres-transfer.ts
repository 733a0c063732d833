/**
 * PostgreSQL transfer: moves the content of a PostgreSQL store. Each call that writes is one transaction.
 * Two imports at the same time wait for each other.
 */
import { systemClock } from "@redrive/core";
import { STORE_CALL_MS } from "../../../model/store.ts";
import { timedPart } from "../../../model/store-wrappers/timed-store.ts";
import { addedRows, compareRows } from "../../../model/transfer/compare.ts";
import type {
  StoreTransfer,
  TransferKind,
  TransferRows,
  WriteResult,
} from "../../../model/transfer/transfer.ts";
import { storeError } from "../connection/failure.ts";
import type { Run, Sql } from "../connection/sql.ts";
import { FIND_ROWS, type FindRows } from "./row-finder.ts";
import { rowReader } from "./row-reader.ts";
import { ADD_ROWS, type AddRows } from "./row-writer.ts";

const LIVE = "SELECT node_id FROM redrive.nodes WHERE lease_until > redrive.clock_ms()";

const BEGIN = `SET LOCAL lock_timeout = ${STORE_CALL_MS}; SET LOCAL statement_timeout = ${STORE_CALL_MS};
  SET LOCAL jit = off`;

const LOCK = "SELECT redrive.make_durable(), pg_advisory_xact_lock(hashtextextended($1, 5))";

export function postgresTransfer(sql: Sql): StoreTransfer {
  return timedPart(systemClock, {
    async liveNodes() {
      return (await sql.run(LIVE)).map(([nodeId]) => nodeId as string);
    },
    read: rowReader(sql.run),
    compare: (kind, rows) => compare(sql.run, kind, rows),
    write: (kind, rows) => write(sql, kind, rows),
  });
}

async function compare<Kind extends TransferKind>(
  run: Run,
  kind: Kind,
  rows: readonly TransferRows[Kind][],
): Promise<readonly WriteResult[]> {
  const find: FindRows<Kind> = FIND_ROWS[kind];
  return compareRows(kind, rows, await find(run, rows));
}

async function write<Kind extends TransferKind>(
  sql: Sql,
  kind: Kind,
  rows: readonly TransferRows[Kind][],
): Promise<readonly WriteResult[]> {
  const add: AddRows<Kind> = ADD_ROWS[kind];
  try {
    return await sql.transaction(async (run, script) => {
      await script(BEGIN);
      await run(LOCK, [sql.schema]);
      const results = await compare(run, kind, rows);
      const added = addedRows(rows, results);
      if (added.length > 0) await add(run, added);
      return results;
    });
  } catch (error) {
    throw storeError(error);
  }
}
