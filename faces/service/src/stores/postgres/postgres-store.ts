/**
 * PostgreSQL store: for several nodes. One commit is one transaction and one round trip. Leases are
 * judged by the server's clock; everything else uses the instants of the callers.
 */
import type { Pool } from "pg";
import type { Store } from "../../model/store.ts";
import type { MovableStore } from "../../model/transfer/transfer.ts";
import { readAddress } from "./connection/address.ts";
import { Listener } from "./connection/listener.ts";
import { openClient, openPool, type PoolOptions } from "./connection/pool.ts";
import { createSql, type Sql } from "./connection/sql.ts";
import { destinationQuery } from "./read/destination-query.ts";
import { postgresQuery } from "./read/postgres-query.ts";
import { readUpkeep } from "./read/upkeep.ts";
import { DESTINATION_COLUMNS, destinationOf } from "./rows/destination-rows.ts";
import { PARTITIONS } from "./rows/partitions.ts";
import { migrate } from "./schema/migrations.ts";
import { documentTable } from "./tables/document-table.ts";
import { dueTable } from "./tables/due-table.ts";
import { nodeTable } from "./tables/node-table.ts";
import { policyTable } from "./tables/policy-table.ts";
import { removalTable } from "./tables/removal-table.ts";
import { postgresTransfer } from "./transfer/postgres-transfer.ts";
import { commit } from "./write/commit.ts";
import { createInTransaction } from "./write/outbox.ts";

export interface PostgresOptions extends PoolOptions {
  /**
   * The URL of the connection that hears hints, for a store behind a pooler in transaction mode,
   * where LISTEN does not work; false: none, and hints arrive with the exchange of each second.
   * Default: the URL of the store.
   */
  readonly listen?: string | false;
}

/**
 * Connects and brings the schema up to date. Rejects if the server does not respond, or if a newer
 * version has written the schema.
 */
export async function postgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const address = readAddress(url);
  const pool = await openPool(address.url, options);
  const sql = createSql(pool, address.schema);
  const { listen = address.url } = options;
  const listener = new Listener(sql, () => openClient(listen === false ? address.url : listen));
  try {
    await migrate(sql);
    if (listen !== false) await listener.start();
  } catch (error) {
    await pool.end();
    throw error;
  }
  return storeOf(sql, pool, listener);
}

function storeOf(sql: Sql, pool: Pool, listener: Listener): MovableStore {
  let isClosed = false;
  return {
    exclusive: false,
    partitions: PARTITIONS,
    async commit(batch) {
      const result = await commit(sql, batch);
      if (batch.hints.length > 0) listener.send(batch.hints);
      return result;
    },
    createIn: (tx, create) => createInTransaction(sql, tx, create),
    ...dueTable(sql),
    ...nodeTable(sql, () => listener.send(null)),
    ...policyTable(sql),
    ...destinationRows(sql),
    ...removalTable(sql),
    upkeep: () => readUpkeep(sql),
    onHint: (heard) => listener.onHint(heard),
    query: { ...postgresQuery(sql), ...destinationQuery(sql) },
    documents: documentTable(sql),
    transfer: postgresTransfer(sql),
    async close() {
      if (isClosed) return;
      isClosed = true;
      await listener.close();
      await pool.end();
    },
  };
}

const WRITTEN = `SELECT ${DESTINATION_COLUMNS} FROM redrive.destinations d
  WHERE d.tenant_id = $1 AND d.version > 0`;

function destinationRows({ run }: Sql): Pick<Store, "getDestination" | "openCircuits"> {
  return {
    async getDestination(tenantId, name) {
      const [row] = await run(`${WRITTEN} AND d.name = $2`, [tenantId, name]);
      return row === undefined ? null : destinationOf(row);
    },
    async openCircuits(tenantId, limit) {
      const open = `${WRITTEN} AND d.breaker_state <> 'CLOSED' ORDER BY d.name LIMIT $2`;
      return (await run(open, [tenantId, limit])).map(destinationOf);
    },
  };
}
