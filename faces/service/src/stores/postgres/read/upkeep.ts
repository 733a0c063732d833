/** Upkeep: the dead rows of a schema, and the oldest transaction of the server, which keeps them. */
import type { Upkeep } from "../../../model/store.ts";
import type { Sql } from "../connection/sql.ts";

/** The statistics of the server. Reading them takes no lock and reads no table of ours. */
const UPKEEP = `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint,
  coalesce((SELECT floor(extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000)::bigint
    FROM pg_stat_activity WHERE pid <> pg_backend_pid()), 0)
  FROM pg_stat_user_tables WHERE schemaname = $1`;

export async function readUpkeep({ run, schema }: Pick<Sql, "run" | "schema">): Promise<Upkeep> {
  const [row = []] = await run(UPKEEP, [schema]);
  const [deadRows, liveRows, oldestTransactionMs] = row.map(Number);
  return {
    deadRows: deadRows ?? 0,
    liveRows: liveRows ?? 0,
    oldestTransactionMs: oldestTransactionMs ?? 0,
  };
}
