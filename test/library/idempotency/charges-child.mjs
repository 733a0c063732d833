/**
 * A process that serves charges with idempotency keys, for tests with several processes and for tests
 * that kill one. The effect of a charge is a row (or, on Redis, an entry of a list).
 *
 * Usage: charges-child.mjs sqlite|postgres|redis <file or url>. It prints its port, and a line when a
 * request pauses at the point that its header `x-pause` names. A line on stdin ends the pauses.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { forNode, idempotency, postgresStore, redisStore, sqliteStore } from "redrive/idempotency";

const LEASE_MS = 1000;

const [kind = "", place = ""] = process.argv.slice(2);
const commands = createInterface({ input: process.stdin });

/** @param {string} line */
const say = (line) => process.stdout.write(`${line}\n`);

/**
 * @typedef {object} Charge
 * @property {string} name
 * @property {(point: string) => Promise<void>} pause
 * @property {{ status: number, headers: Record<string, string>, body: string }} response
 */

/** @typedef {{ store: import("redrive/idempotency").IdempotencyStore, charge: (claim: any, charge: Charge) => Promise<void> }} Backend */

/** @returns {Promise<Backend>} */
async function openSqlite() {
  const { DatabaseSync } = await import("@photostructure/sqlite");
  const db = new DatabaseSync(place);
  db.exec("PRAGMA busy_timeout = 5000");
  const store = sqliteStore(db);
  await store.migrate();
  return {
    store,
    async charge(claim, { name, pause, response }) {
      await pause("before-commit");
      db.exec("BEGIN IMMEDIATE");
      try {
        db.prepare("INSERT INTO charges VALUES (?)").run(name);
        claim.settleIn(db, response);
        db.exec("COMMIT");
      } catch (error) {
        db.exec("ROLLBACK");
        throw error;
      }
      await pause("after-commit");
    },
  };
}

/** @returns {Promise<Backend>} */
async function openPostgres() {
  const { Pool } = await import("pg");
  const pool = new Pool({ connectionString: place, max: 30 });
  const store = postgresStore(pool);
  await store.migrate();
  return {
    store,
    async charge(claim, { name, pause, response }) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        await client.query("INSERT INTO charges VALUES ($1)", [name]);
        await pause("before-commit");
        await claim.settleIn(client, response);
        await client.query("COMMIT");
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
      await pause("after-commit");
    },
  };
}

/** @returns {Promise<Backend>} */
async function openRedis() {
  const { Redis } = await import("ioredis");
  const client = new Redis(place);
  return {
    store: redisStore(client),
    async charge(_claim, { name, pause }) {
      await pause("before-commit");
      await client.rpush("charges", name);
    },
  };
}

const openers = { sqlite: openSqlite, postgres: openPostgres, redis: openRedis };
const { store, charge } = await openers[/** @type {keyof typeof openers} */ (kind)]();
const keys = idempotency({ store, scope: () => "shop", leaseMs: LEASE_MS });

const server = createServer(
  forNode(
    keys,
    async (
      /** @type {import("node:http").IncomingMessage} */ request,
      /** @type {import("node:http").ServerResponse} */ response,
    ) => {
      const name = String(request.headers["idempotency-key"]);
      const body = JSON.stringify({ name, by: process.pid });
      const headers = { "content-type": "application/json" };
      const pause = async (/** @type {string} */ point) => {
        if (request.headers["x-pause"] !== point) return;
        say(`paused ${point}`);
        await once(commands, "line");
      };
      await charge(keys.claimOf(request), {
        name,
        pause,
        response: { status: 201, headers, body },
      });
      response.writeHead(201, headers).end(body);
    },
  ),
);
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") say(`port ${address.port}`);
});
