/** Doctor PostgreSQL: checks the server of a store, with a line for each setting that matters. */
import { formatDuration, messageOf } from "@redrive/core";
import { inspectPostgres, type PostgresReport, storeName } from "@redrive/service";
import type { Check } from "./doctor-check.ts";

/** Older transactions keep dead rows, and claims become slower. */
const MAX_TRANSACTION_MS = 300_000;

/** Fewer dead rows have no effect. */
const MIN_DEAD_ROWS = 10_000;

export async function checkPostgres(store: string): Promise<readonly Check[]> {
  try {
    const report = await inspectPostgres(store);
    return [
      ok("store", `${storeName(store)} responds, PostgreSQL ${report.serverVersion}`),
      checkSchema(report),
      checkDurability(report),
      checkTransactions(report),
      checkDeadRows(report),
    ];
  } catch (error) {
    const fix = "start the server, or correct the address, the user and the password";
    return [{ name: "store", state: "fail", found: messageOf(error), fix }];
  }
}

function ok(name: string, found: string): Check {
  return { name, state: "ok", found, fix: "" };
}

function checkSchema({ schemaVersion, ownVersion }: PostgresReport): Check {
  if (schemaVersion === 0) return ok("schema", "does not exist yet; the first start creates it");
  if (schemaVersion === ownVersion) return ok("schema", `version ${schemaVersion}`);
  return ok("schema", `version ${schemaVersion}; the next start brings it to ${ownVersion}`);
}

function checkDurability({ fsync, synchronousCommit }: PostgresReport): Check {
  const name = "durability";
  if (!fsync) {
    const fix = "turn on fsync: without it, a crash of the machine damages the database";
    return { name, state: "fail", found: "fsync is off", fix };
  }
  if (synchronousCommit !== "off") return ok(name, `synchronous_commit is ${synchronousCommit}`);
  return ok(name, "synchronous_commit is off; Redrive turns it on for its own commits");
}

function checkTransactions({ oldestTransactionMs: ms }: PostgresReport): Check {
  const name = "transactions";
  const found = `the oldest transaction runs for ${formatDuration(ms)}`;
  if (ms <= MAX_TRANSACTION_MS) return ok(name, found);
  const fix = "end it: until then, no dead rows are removed (pg_stat_activity shows it)";
  return { name, state: "warn", found, fix };
}

function checkDeadRows({ deadRows, liveRows }: PostgresReport): Check {
  const name = "dead rows";
  const found = `${deadRows} dead and ${liveRows} live rows`;
  if (deadRows < MIN_DEAD_ROWS || deadRows < liveRows) return ok(name, found);
  const fix = "check that autovacuum runs, and that no old transaction holds it up";
  return { name, state: "warn", found, fix };
}
