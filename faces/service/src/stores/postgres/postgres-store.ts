/**
 * PostgreSQL store: for several nodes. One commit is one transaction and one round trip. Leases are
 * judged by the server's clock; everything else uses the instants of the callers.
 */
import type { Pool } from "pg";
import type { Store } from "../../model/store.ts";
import type { MovableStore } from "../../model/transfer.ts";
import { commit } from "./commit.ts";
import { Listener } from "./connection/listener.ts";
import {
  createSql,
  openClient,
  openPool,
  type PoolOptions,
  readAddress,
  type Sql,
} from "./connection/sql.ts";
import { documentTable } from "./document-table.ts";
import { dueTable } from "./due-table.ts";
import { checkSettings } from "./inspect-postgres.ts";
import { nodeTable } from "./node-table.ts";
import { createInTransaction } from "./outbox.ts";
import { policyTable } from "./policy-table.ts";
import { destinationQuery, postgresQuery, readUpkeep } from "./postgres-query.ts";
import { postgresTransfer } from "./postgres-transfer.ts";
import { removalTable, sweeper } from "./removal-table.ts";
import { MIGRATIONS, migrate } from "./schema/migrations.ts";
import { DESTINATION_COLUMNS, destinationOf, PARTITIONS } from "./schema/rows.ts";

export interface PostgresOptions extends PoolOptions {
  /**
   * The URL of the connection that receives wake-ups, for a store behind a pooler in transaction mode,
   * where LISTEN does not work; false: none, and a node finds the tasks of others within a second.
   * Default: the URL of the store.
   */
  readonly listen?: string | false;
  /** Only tests have others than those of this version. */
  readonly migrations?: readonly string[];
}

/**
 * Connects and brings the schema up to date. Rejects if the server does not respond, or if a newer
 * version has written the schema.
 */
export async function postgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const address = readAddress(url);
  const pool = await openPool(address.url, options.maxConnections ?? address.connections);
  const { migrations = MIGRATIONS } = options;
  const sql = createSql(pool, address.schema, migrations.length);
  const { listen = address.url } = options;
  const listener = new Listener(sql, () => openClient(listen === false ? address.url : listen));
  try {
    await checkSettings(sql, address);
    await migrate(sql, migrations);
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
    limitsCalls: true,
    partitions: PARTITIONS,
    async commit(batch) {
      const result = await commit(sql, batch);
      if (batch.wakeUps.length > 0) listener.sendLanes(batch.wakeUps);
      return result;
    },
    createIn: (tx, create) => createInTransaction(sql, tx, create),
    ...dueTable(sql),
    ...nodeTable(sql, () => listener.sendNodesChanged()),
    ...policyTable(sql),
    ...destinationRows(sql),
    ...removalTable(sql),
    sweep: sweeper(sql),
    upkeep: () => readUpkeep(sql),
    onWakeUp: (heard) => listener.onWakeUp(heard),
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
