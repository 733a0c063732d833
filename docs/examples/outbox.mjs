/**
 * Example: an order and its task in one transaction. Run it with `node docs/examples/outbox.mjs
 * postgres://USER:PASSWORD@HOST/DATABASE`. Every third order is rolled back, and its task with it.
 */
import { createServer } from "node:http";
import { createRedrive } from "@redrive/service";
import pg from "pg";

const database = process.argv[2];
if (database === undefined) throw new Error("give the URL of a PostgreSQL database");

const target = createServer((request, response) => {
  request.on("data", (chunk) => console.log("received", String(chunk)));
  request.on("end", () => response.end());
});
await new Promise((resolve) => target.listen(7338, "127.0.0.1", () => resolve(undefined)));

const pool = new pg.Pool({ connectionString: database });
await pool.query("CREATE TABLE IF NOT EXISTS example_orders (id text PRIMARY KEY)");
const redrive = await createRedrive({ store: database });

/**
 * @param {string} order
 * @param {"COMMIT" | "ROLLBACK"} end
 */
async function placeOrder(order, end) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO example_orders VALUES ($1)", [order]);
    const targetUrl = "http://127.0.0.1:7338/orders";
    await redrive.enqueue({ targetUrl, json: { order }, idempotencyKey: order }, { tx: client });
    await client.query(end);
    console.log(end, order);
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

for (let order = 1; order <= 9; order++) {
  await placeOrder(`order-${process.pid}-${order}`, order % 3 === 0 ? "ROLLBACK" : "COMMIT");
}

// Wait until every task has ended, then stop.
for (;;) {
  const { PENDING = 0, IN_FLIGHT = 0 } = await redrive.count();
  if (PENDING + IN_FLIGHT === 0) break;
  await new Promise((resolve) => setTimeout(resolve, 100));
}
await redrive.stop();
await pool.end();
target.close();
