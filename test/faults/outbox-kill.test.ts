/** Tests that kill -9 never separates an order from its task, at whatever moment of a transaction. */
// needs: postgres, build
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { seededRandom } from "@redrive/core";
import { createRedrive, type Redrive } from "@redrive/service";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";

/** `npm run test:long` makes more of them. */
const KILLS = Number(process.env["REDRIVE_KILLS"] ?? 9);
const SCHEMA = "killed";
const SCRIPT = fileURLToPath(new URL("./outbox-child.mjs", import.meta.url));

const arrived = new Set<string>();
const sink = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    arrived.add(body);
    response.end();
  });
});
let postgres: PostgresServer;
let client: pg.Client;
let url = "";

beforeAll(async () => {
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}/orders`;
  postgres = await startPostgres();
  client = new pg.Client(postgres.url);
  await client.connect();
  await client.query("CREATE TABLE orders (name text PRIMARY KEY)");
});
afterAll(async () => {
  sink.close();
  await client.end();
  await postgres.stop();
});

/** The orders of transactions that were written and not yet ended when a child was killed. */
const open = new Set<string>();

/** Resolves at the `count`-th line that begins with the word. */
function said(child: ChildProcess, word: string, count: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = count;
    if (child.stdout === null) throw new Error("the child has no output");
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [first, name = ""] = line.split(" ");
      if (first === "wrote") open.add(name);
      else open.delete(name);
      if (first === word && --left === 0) resolve();
    });
    child.once("exit", (code) => reject(new Error(`the child ended with ${code}`)));
  });
}

/** Kills the child before a commit, right after one, or at a random moment. */
async function killOne(run: number, random: () => number): Promise<void> {
  const args = [SCRIPT, postgres.url, SCHEMA, url, String(run), "4"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const gone = once(child, "close");
  const word = run % 3 === 0 ? "wrote" : "ended";
  await said(child, word, 1 + Math.floor(random() * 40));
  if (run % 3 === 2) await sleep(random() * 30);
  child.kill("SIGKILL");
  await gone;
}

const namesOf = async (sql: string) =>
  (await client.query(sql)).rows.map(({ name }) => String(name)).sort();

/** The server notices that a process is gone, and rolls its transactions back. */
async function transactionsEnded(): Promise<void> {
  const open = "SELECT pid AS name FROM pg_stat_activity WHERE application_name = 'orders'";
  await expect.poll(() => namesOf(open), { timeout: 60_000 }).toEqual([]);
}

async function openTasks(redrive: Redrive): Promise<number> {
  const { PENDING = 0, IN_FLIGHT = 0 } = await redrive.count();
  return PENDING + IN_FLIGHT;
}

it(`keeps orders and tasks together in ${KILLS} kills`, { timeout: 300_000 }, async () => {
  const draw = seededRandom("outbox kills");
  for (let run = 0; run < KILLS; run++) {
    await killOne(run, () => draw.next());
    await transactionsEnded();
    const orders = await namesOf("SELECT name FROM orders");
    const tasks = await namesOf(`SELECT idempotency_key AS name FROM ${SCHEMA}.tasks`);
    expect(tasks).toEqual(orders);
  }
  const orders = await namesOf("SELECT name FROM orders");
  expect(orders.length).toBeGreaterThan(KILLS);
  // Kills met transactions before their commit, and after it but before the child could report it.
  const committed = [...open].filter((name) => orders.includes(name));
  console.log(
    `orders ${orders.length}, open at a kill ${open.size}, committed ${committed.length}`,
  );
  expect(open.size - committed.length).toBeGreaterThan(0);
  const redrive = await createRedrive({ store: `${postgres.url}?schema=${SCHEMA}`, leaseMs: 2000 });
  await expect.poll(() => openTasks(redrive), { timeout: 60_000 }).toBe(0);
  const { tasks: setAside } = await redrive.list({ status: "EXHAUSTED" }, { limit: 1000 });
  await redrive.stop();
  // A task that was lost in three kills is set aside. It is not lost, and it may never have been sent.
  expect(setAside.filter(({ reason }) => reason !== "poison")).toEqual([]);
  const kept = new Set([...arrived, ...setAside.map(({ idempotencyKey }) => idempotencyKey)]);
  expect([...kept].sort()).toEqual(orders);
});
