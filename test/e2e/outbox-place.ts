/**
 * Outbox place: a PostgreSQL server, a target that records bodies, and a pool of the caller, for tests of
 * tasks in transactions of the caller.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRedrive, type Redrive } from "@redrive/service";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";

/** Without a NOTIFY, a node finds the task when it reads what is due, each second. */
export const PROMPT_MS = 3000;

export type Work<T> = (client: pg.PoolClient) => Promise<T>;

export interface OutboxPlace {
  /** The bodies that arrived, in their order. */
  readonly arrived: readonly string[];
  readonly url: () => string;
  /** The pool of the caller. */
  readonly pool: () => pg.Pool;
  nextSchema(): string;
  /** Starts a service, which is stopped after the test. */
  open(schema: string): Promise<Redrive>;
  stopLater(redrive: Redrive): Redrive;
  /** Runs the work in a transaction on a connection of the pool. */
  inTransaction<T>(work: Work<T>, begin?: string, end?: string): Promise<T>;
  taskOf(name: string, idempotencyKey?: string): { targetUrl: string; body: string };
  /** The caller's own write, and the task that follows it. */
  order(client: pg.PoolClient, redrive: Redrive, name: string, key?: string): OrderResult;
  /** Resolves once all of these have arrived. */
  delivered(names: readonly string[]): Promise<void>;
}

type OrderResult = ReturnType<Redrive["enqueue"]>;

/** Its server ends after the tests of this file. */
export function outboxPlace(): OutboxPlace {
  const arrived: string[] = [];
  const sink = recordingSink(arrived);
  const opened: Redrive[] = [];
  let postgres: PostgresServer;
  let pool: pg.Pool;
  let targetUrl = "";
  let schemas = 0;

  beforeAll(async () => {
    sink.listen(0, "127.0.0.1");
    await once(sink, "listening");
    targetUrl = `http://127.0.0.1:${(sink.address() as AddressInfo).port}/hook`;
    postgres = await startPostgres();
    pool = new pg.Pool({ connectionString: postgres.url, max: 20 });
    // The server may end before the last connections have closed.
    pool.on("error", () => {});
    await pool.query("CREATE TABLE orders (name text PRIMARY KEY)");
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((redrive) => redrive.stop(0)));
  });
  afterAll(async () => {
    sink.close();
    await pool.end();
    await postgres.stop();
  });

  const taskOf = (body: string, idempotencyKey?: string) => ({
    targetUrl,
    body,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  });
  const stopLater = (redrive: Redrive) => {
    opened.push(redrive);
    return redrive;
  };
  return {
    arrived,
    url: () => postgres.url,
    pool: () => pool,
    nextSchema: () => `outbox_${++schemas}`,
    stopLater,
    open: async (schema) =>
      stopLater(await createRedrive({ store: `${postgres.url}?schema=${schema}` })),
    inTransaction: (work, begin = "BEGIN", end = "COMMIT") => transaction(pool, work, begin, end),
    taskOf,
    async order(client, redrive, name, key) {
      await client.query("INSERT INTO orders VALUES ($1)", [name]);
      return redrive.enqueue(taskOf(name, key), { tx: client });
    },
    async delivered(names) {
      const isThere = () => names.every((name) => arrived.includes(name));
      await expect.poll(isThere, { timeout: PROMPT_MS, interval: 10 }).toBe(true);
    },
  };
}

function recordingSink(arrived: string[]) {
  return createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      arrived.push(body);
      response.end();
    });
  });
}

async function transaction<T>(
  pool: pg.Pool,
  work: Work<T>,
  begin: string,
  end: string,
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query(begin);
    const result = await work(client);
    await client.query(end);
    return result;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

/** The code and the message of a rejection. */
export function codeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "none",
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  );
}
