/** Tests that a PostgreSQL store stays fast: a week of churn passes in seconds, or minutes if asked. */
// needs: postgres
import { expect, it } from "vitest";
import { churnDay, quantile } from "./churn.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";

/** `npm run test:soak` sets it. Each round creates and ends fifty tasks. */
const ROUNDS = Number(process.env["REDRIVE_SOAK_ROUNDS"] ?? 8);
const DAYS = 7;
/** The claims of the last days may take this much longer than those of the first days. */
const MAX_RATIO = 2;
/** Days that are kept, today, tomorrow, and one whose removal may be under way. */
const MAX_ATTEMPT_DAYS = 6;
const LONG_MS = 3_600_000;
/** A vacuum that has not removed the rows by then does not come. */
const VACUUM_MS = 120_000;

const server = testServer();

it("claims stay as fast, dead rows are removed and old days dropped", {
  timeout: LONG_MS,
}, async () => {
  // As often, compared with the days that pass, as on a real server.
  await server.run("ALTER SYSTEM SET autovacuum_naptime = '1s'");
  await server.run("SELECT pg_reload_conf()");
  const url = await server.nextUrl();
  const schema = new URL(url).searchParams.get("schema") ?? "";
  const store = await postgresStore(url);
  // The first statements of a connection are planned, and pages are read from the disk.
  await churnDay(store, -1, Math.ceil(ROUNDS / 2));
  const slowest: number[] = [];
  const dead: number[] = [];
  let ended = 0;
  for (let day = 0; day < DAYS; day++) {
    const churned = await churnDay(store, day, ROUNDS);
    ended += churned.ended;
    slowest.push(quantile(churned.claimMs, 0.99));
    dead.push((await store.upkeep?.())?.deadRows ?? 0);
  }
  const first = quantile(slowest.slice(0, 3), 0.5);
  // The best of the last days: what else runs on the machine does not slow down all of them.
  const last = Math.min(...slowest.slice(-3));
  const days = await server.run(`SELECT day FROM ${schema}.attempt_days`);
  console.log(
    `claim p99 by day: ${slowest.map((ms) => ms.toFixed(1)).join(", ")} ms; dead rows: ${dead.join(", ")}; ` +
      `days of attempts: ${days.length}; tasks: ${ended}`,
  );
  expect(ended).toBe(DAYS * ROUNDS * 50);
  expect(last / first).toBeLessThan(MAX_RATIO);
  expect(days.length).toBeLessThanOrEqual(MAX_ATTEMPT_DAYS);
  // Each task leaves about ten dead rows. The vacuum runs by itself, and is not in step with the days.
  const deadRows = async () => (await store.upkeep?.())?.deadRows ?? Number.POSITIVE_INFINITY;
  await expect.poll(deadRows, { timeout: VACUUM_MS, interval: 200 }).toBeLessThan(ended);
  await store.close();
});
