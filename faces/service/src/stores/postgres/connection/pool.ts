/**
 * Pool: opens the connections of a PostgreSQL store. The driver is loaded only here, so a process
 * without such a store does not load it.
 */
import type { Client, Pool } from "pg";

export interface PoolOptions {
  /** Connections at once. Default: 10. */
  readonly maxConnections?: number;
}

const MAX_CONNECTIONS = 10;
/** A connection must be free, or open, within this time. */
const CONNECT_MS = 3000;
const IDLE_MS = 30_000;
const KEEP_ALIVE_MS = 5000;

/** The driver reports the loss of an idle connection here; the next statement opens another. */
const ignoreLoss = () => {};

export async function openPool(url: string, options: PoolOptions = {}): Promise<Pool> {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ ...settingsOf(url), max: options.maxConnections ?? MAX_CONNECTIONS });
  pool.on("error", ignoreLoss);
  // A connection that is in use reports its loss to the statement, and here as well.
  pool.on("connect", (client) => client.on("error", ignoreLoss));
  return pool;
}

/** A single connection that is not shared, not yet connected. */
export async function openClient(url: string): Promise<Client> {
  const { default: pg } = await import("pg");
  return new pg.Client(settingsOf(url));
}

function settingsOf(url: string) {
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: "redrive",
    allowExitOnIdle: true,
  };
}
