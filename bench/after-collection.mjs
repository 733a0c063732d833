/**
 * `node --expose-gc bench/after-collection.mjs [checkout]`: measures calls directly after a full
 * garbage collection, in batches. Shows whether compiled code survives it; see docs/decisions/0015.
 */
import { setImmediate as endOfTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { breakerRows, loadCheckout, retryRows, stackRows } from "./library-rows.mjs";

const BATCH = 2_500;
const BATCHES = 16;
const WARM_UP_BATCHES = 120;

const root = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const checkout = await loadCheckout(root);
for (const rowsOf of [retryRows, breakerRows, stackRows]) {
  const row = rowsOf(checkout)[0];
  if (row === undefined) continue;
  for (let n = 0; n < WARM_UP_BATCHES; n++) await nsPerCall(row.call);
  globalThis.gc?.();
  const costs = [];
  for (let n = 0; n < BATCHES; n++) costs.push((await nsPerCall(row.call)).toFixed(0));
  console.log(`${row.name}, ns per call in batches of ${BATCH}: ${costs.join(" ")}`);
}

/**
 * Measures CPU time.
 * @param {() => Promise<unknown>} call
 */
async function nsPerCall(call) {
  const start = process.cpuUsage();
  for (let n = 0; n < BATCH; n++) await call();
  await endOfTurn();
  const { user, system } = process.cpuUsage(start);
  return ((user + system) * 1_000) / BATCH;
}
