/**
 * PostgreSQL store: idempotency keys in a table of the caller's database. It uses the caller's own
 * `pg` pool and imports no driver. Leases are measured with the server's clock.
 */
import type { TimeSource } from "@redrive/core";
import {
  assertClaim,
  assertLease,
  assertSettlement,
  type Claim,
  type ClaimResult,
  claimResultOf,
  type KeyRow,
  type Settlement,
  type TransactionalStore,
  tableName,
  untilClear,
} from "./idempotency-store.ts";

/** A pool or a client of `pg`, or anything with the same `query`. */
export interface PostgresHandle {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

export interface PostgresStoreOptions {
  /** Name of the table, with or without its schema. Default: `redrive_idempotency`. */
  readonly table?: string | undefined;
  /** For tests. Default: the clock of the server. */
  readonly clock?: Pick<TimeSource, "now"> | undefined;
}

export interface PostgresStore extends TransactionalStore<PostgresHandle, Promise<boolean>> {
  /** The statement that `migrate` runs, for programs that have migrations of their own. */
  readonly schema: string;
  /** Creates the table if it does not exist. */
  migrate(): Promise<void>;
}

/** SQLSTATE of transactions that PostgreSQL ends because they met; they may be repeated. */
const SERIALIZATION_FAILURES = ["40001", "40P01"];

export function postgresStore(
  handle: PostgresHandle,
  { table, clock }: PostgresStoreOptions = {},
): PostgresStore {
  const sql = statementsOf(tableName(table));
  const now = () => clock?.now() ?? null;

  /** Undefined if it met another claim of the key. */
  async function claimOnce(key: string, claim: Claim): Promise<ClaimResult | undefined> {
    const { rows: known } = await handle.query(sql.read, [key]);
    const [row] = known as readonly StoredRow[];
    const live = row && liveRow(row, now() ?? Math.floor(Number(row.now) * 1000));
    const found = live && claimResultOf(live, claim);
    if (found !== undefined) return found;
    const { fingerprint, owner, leaseMs, retentionMs } = claim;
    const values = [now(), key, fingerprint, owner, leaseMs, retentionMs];
    const { rows: taken } = await handle.query(sql.take, values);
    const [claimed] = taken as readonly { readonly takeovers: number }[];
    return claimed && { kind: "claimed", takeovers: claimed.takeovers };
  }

  async function hasRow(target: PostgresHandle, text: string, values: unknown[]): Promise<boolean> {
    const { rows } = await target.query(text, values);
    return rows.length > 0;
  }

  async function settleIn(
    target: PostgresHandle,
    key: string,
    owner: string,
    settlement: Settlement,
  ): Promise<boolean> {
    assertSettlement(settlement);
    const { result, retentionMs } = settlement;
    return await hasRow(target, sql.settle, [now(), key, owner, result, retentionMs]);
  }

  return {
    schema: sql.schema,
    async migrate() {
      await handle.query(sql.schema);
    },
    async claim(key, claim) {
      assertClaim(key, claim);
      return await untilClear(key, () => claimOnce(key, claim).catch(ignoreMeeting));
    },
    async renew(key, owner, leaseMs) {
      assertLease(leaseMs);
      return await hasRow(handle, sql.renew, [now(), key, owner, leaseMs]);
    },
    settle: (key, owner, settlement) => settleIn(handle, key, owner, settlement),
    settleIn,
    release: (key, owner) => hasRow(handle, sql.release, [now(), key, owner]),
    async sweep(limit) {
      return (await handle.query(sql.sweep, [now(), limit])).rows.length;
    },
  };
}

/** A row as `read` returns it. Drivers return numbers of 64 bits as texts. */
interface StoredRow {
  readonly fingerprint: string;
  readonly result: Uint8Array | null;
  readonly lease_until: unknown;
  readonly expires_at: unknown;
  /** The clock of the server, in seconds. */
  readonly now: unknown;
}

/** Undefined if the key has expired. */
function liveRow(row: StoredRow, now: number): KeyRow | undefined {
  const { fingerprint, result } = row;
  if (Number(row.expires_at) <= now) return undefined;
  return { fingerprint, result, leaseLeftMs: Number(row.lease_until) - now };
}

function ignoreMeeting(error: unknown): undefined {
  const { code } = error as { readonly code?: string };
  if (!SERIALIZATION_FAILURES.includes(code ?? "")) throw error;
}

/** Epoch ms: the parameter $1, or the server's clock if it is null. */
const NOW = "coalesce($1::bigint, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)";

/** The row of the key, if this owner holds it. */
const HELD = `key = $2 AND owner = $3 AND expires_at > ${NOW}`;

/**
 * A read that finds a result writes nothing, so a replay costs one read. It compares no instants: that
 * would cost PostgreSQL twice as much as the read itself. `take` writes only if the key is still free: it
 * checks again under the lock of the row.
 */
function statementsOf(table: string) {
  return {
    schema: schemaOf(table),
    read: `SELECT fingerprint, result, lease_until, expires_at,
      extract(epoch from statement_timestamp()) AS now FROM ${table} WHERE key = $1`,
    take: `INSERT INTO ${table} AS k (key, fingerprint, owner, takeovers, lease_until, expires_at)
      VALUES ($2, $3, $4, 0, ${NOW} + $5::bigint, ${NOW} + $5::bigint + $6::bigint)
      ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, owner = excluded.owner,
        takeovers = CASE WHEN k.expires_at > ${NOW} THEN k.takeovers + 1 ELSE 0 END,
        lease_until = excluded.lease_until, expires_at = excluded.expires_at, result = NULL
      WHERE k.expires_at <= ${NOW} OR (k.result IS NULL AND k.lease_until <= ${NOW}
        AND k.fingerprint = excluded.fingerprint)
      RETURNING takeovers`,
    renew: `UPDATE ${table} SET expires_at = expires_at + ${NOW} + $4::bigint - lease_until,
      lease_until = ${NOW} + $4::bigint WHERE ${HELD} AND result IS NULL RETURNING 1`,
    settle: `UPDATE ${table} SET result = $4, expires_at = ${NOW} + $5::bigint
      WHERE ${HELD} RETURNING 1`,
    release: `DELETE FROM ${table} WHERE ${HELD} AND result IS NULL RETURNING 1`,
    sweep: `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} WHERE expires_at <= ${NOW}
      ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1`,
  };
}

/** One statement, so that it is one transaction. Without the lock, two `IF NOT EXISTS` may collide. */
function schemaOf(table: string): string {
  return `DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('${table}'));
  CREATE TABLE IF NOT EXISTS ${table} (
    key text COLLATE "C" PRIMARY KEY,
    fingerprint text NOT NULL,
    owner text NOT NULL,
    takeovers integer NOT NULL,
    lease_until bigint NOT NULL, -- epoch ms
    expires_at bigint NOT NULL, -- epoch ms
    result bytea -- null while the first request runs
  );
  CREATE INDEX IF NOT EXISTS ${table.replace(/^.*\./, "")}_expires_at ON ${table} (expires_at);
END $$`;
}
