/**
 * Replay: compares a server that replays stored responses with one that reads and sends them, for each
 * store. A child process sends the requests, over connections that stay open.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";

import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import pg from "pg";
import {
  forNode,
  idempotency,
  memoryStore,
  postgresStore,
  redisStore,
  sqliteStore,
} from "redrive/idempotency";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import { judge, printVerdicts } from "../bars.mjs";
import { compareCpuTime } from "../cpu-time.mjs";
import { compare } from "../harness.mjs";

/** @typedef {import("redrive/idempotency").IdempotencyStore} Store */
/** @typedef {{ store: Store, read: () => Promise<Uint8Array>, close?: () => Promise<unknown> }} Opened */

const MAX_RATIO = 1.3;
const BODY = Buffer.from(JSON.stringify({ charge: 17, note: "x".repeat(400) }));
const KEY = "order-17";

const clients = fork(new URL("./clients.mjs", import.meta.url));

/** @param {string} url @param {number} count */
async function send(url, count) {
  clients.send({ url, count });
  const [failed] = await once(clients, "message");
  if (failed !== 0) throw new Error(`${failed} of ${count} requests failed`);
}

/** @param {import("node:http").RequestListener} handler */
async function listen(handler) {
  const server = createServer({ keepAliveTimeout: 600_000 }, handler);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}/charges`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** What a handler with a body does first. @param {import("node:http").IncomingMessage} request */
async function readBody(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Sends a stored response: a line of JSON, then the body. @param {import("node:http").ServerResponse} response @param {Uint8Array} bytes */
function sendStored(response, bytes) {
  const end = bytes.indexOf(10);
  const { status, headers } = JSON.parse(Buffer.from(bytes.subarray(0, end)).toString());
  response.statusCode = status;
  for (const [name, value] of headers) response.setHeader(name, value);
  response.end(bytes.subarray(end + 1));
}

/** @param {string} name @param {() => Promise<Opened>} open */
async function compareStore(name, open) {
  const { store, read, close } = await open();
  const keys = idempotency({ store, scope: () => "shop", retentionMs: 72 * 3_600_000 });
  const replaying = await listen(
    forNode(
      keys,
      (/** @type {any} */ _, /** @type {import("node:http").ServerResponse} */ response) => {
        response.writeHead(201, { "content-type": "application/json", location: "/charges/17" });
        response.end(BODY);
      },
    ),
  );
  const bare = await listen(async (request, response) => {
    await readBody(request);
    sendStored(response, await read());
  });
  await send(replaying.url, 1);
  const comparison = {
    name: `${name}: a replay`,
    contenders: [
      { name: "bare handler", run: (/** @type {number} */ count) => send(bare.url, count) },
      { name: "idempotency", run: (/** @type {number} */ count) => send(replaying.url, count) },
    ],
    // Short rounds: a machine that is busy for seconds then slows both down.
    roundMs: 100,
    rounds: 41,
  };
  const bars = [{ of: "idempotency", ratio: MAX_RATIO }];
  const cpu = await compareCpuTime({
    ...comparison,
    name: `${comparison.name}, CPU time of the server`,
  });
  printVerdicts(cpu.name, judge(cpu, bars));
  const wall = await compare({ ...comparison, name: `${comparison.name}, time` });
  printVerdicts(wall.name, judge(wall, bars));
  bare.close();
  replaying.close();
  await close?.();
}

/** The only row of a store: the first request has stored its response. */
async function openMemory() {
  /** @type {Uint8Array} */
  let stored = new Uint8Array();
  const memory = memoryStore();
  /** @type {Store} */
  const store = {
    claim: (key, claim) => memory.claim(key, claim),
    renew: (key, owner, leaseMs) => memory.renew(key, owner, leaseMs),
    settle(key, owner, settlement) {
      stored = settlement.result;
      return memory.settle(key, owner, settlement);
    },
    release: (key, owner) => memory.release(key, owner),
    sweep: (limit) => memory.sweep(limit),
  };
  const rows = new Map([[KEY, () => stored]]);
  return { store, read: async () => rows.get(KEY)?.().slice() ?? new Uint8Array() };
}

/** Finds the key of the only row, once. @param {() => Promise<string>} find */
function onlyKey(find) {
  /** @type {Promise<string> | undefined} */
  let found;
  return () => {
    found ??= find();
    return found;
  };
}

async function openSqlite() {
  const db = new DatabaseSync(":memory:");
  const store = sqliteStore(db);
  await store.migrate();
  const key = onlyKey(async () => {
    const row = db.prepare("SELECT key FROM redrive_idempotency").get();
    return String(row?.["key"]);
  });
  const statement = db.prepare(
    "SELECT fingerprint, lease_until, result FROM redrive_idempotency WHERE key = ?",
  );
  const read = async () => /** @type {Uint8Array} */ (statement.get(await key())?.["result"]);
  return { store, read };
}

async function openPostgres() {
  const server = await startPostgres();
  const pool = new pg.Pool({ connectionString: server.url, max: 8 });
  pool.on("error", () => undefined);
  const store = postgresStore(pool);
  await store.migrate();
  const key = onlyKey(
    async () => (await pool.query("SELECT key FROM redrive_idempotency")).rows[0].key,
  );
  const text = "SELECT fingerprint, lease_until, result FROM redrive_idempotency WHERE key = $1";
  return {
    store,
    read: async () => (await pool.query(text, [await key()])).rows[0].result,
    async close() {
      await pool.end();
      await server.stop();
    },
  };
}

async function openRedis() {
  const server = await startRedis();
  const client = new Redis(server.url);
  const key = onlyKey(async () => (await client.keys("redrive:*"))[0] ?? "");
  return {
    store: redisStore(client),
    async read() {
      const [, , result] = await client.hmget(await key(), "fingerprint", "leaseUntil", "result");
      return Buffer.from(result ?? "", "base64");
    },
    async close() {
      client.disconnect();
      await server.stop();
    },
  };
}

const STORES = {
  memory: openMemory,
  SQLite: openSqlite,
  PostgreSQL: openPostgres,
  Redis: openRedis,
};

const wanted = process.argv.slice(2).filter((arg) => !arg.startsWith("-"));
for (const [name, open] of Object.entries(STORES)) {
  if (wanted.length === 0 || wanted.includes(name)) await compareStore(name, open);
}
clients.kill();
