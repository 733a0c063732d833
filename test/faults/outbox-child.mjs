/**
 * A process that writes orders and their tasks in one transaction each, for tests that kill it. It
 * prints a line when an order and its task are written, and one when the transaction has ended.
 *
 * Usage: outbox-child.mjs <database url> <schema> <target url> <run> <callers>. It runs until it is killed.
 */
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createRedrive } from "@redrive/service";
import pg from "pg";

const [database = "", schema = "", targetUrl = "", run = "", callers = "1"] = process.argv.slice(2);

/** A kill ends the attempts that run. One task can meet many kills, and none may exhaust it. */
const outlastsKills = {
  maxAttempts: 100,
  initialDelayMs: 50,
  maxDelayMs: 500,
  totalBudgetMs: 600_000,
};

/** @param {string} line */
const say = (line) => writeSync(1, `${line}\n`);

const pool = new pg.Pool({
  connectionString: database,
  application_name: "orders",
  max: Number(callers),
});
const redrive = await createRedrive({ store: `${database}?schema=${schema}`, leaseMs: 2000 });
let next = 0;

async function placeOrders() {
  const client = await pool.connect();
  for (;;) {
    const name = `order-${run}-${next++}`;
    await client.query("BEGIN");
    await client.query("INSERT INTO orders VALUES ($1)", [name]);
    const task = { targetUrl, body: name, idempotencyKey: name, policy: outlastsKills };
    await redrive.enqueue(task, { tx: client });
    say(`wrote ${name}`);
    // Some transactions stay open for a moment, so that a kill meets them.
    await sleep(next % 4);
    await client.query(next % 7 === 0 ? "ROLLBACK" : "COMMIT");
    say(`ended ${name}`);
  }
}

await Promise.all(Array.from({ length: Number(callers) }, placeOrders));
