/**
 * SQLite store: idempotency keys in a table of the caller's SQLite file, for processes on one machine.
 * It uses the caller's own handle (of `node:sqlite`, `better-sqlite3` or a package with the same
 * functions) and imports no driver.
 */
import { assertRange, type Clock, RedriveError, systemClock } from "@redrive/core";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
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

/** A synchronous handle of a SQLite file. */
export interface SqliteHandle {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  /** Of `node:sqlite`: whether a transaction is open. */
  readonly isTransaction?: boolean;
  /** Of `better-sqlite3`: whether a transaction is open. */
  readonly inTransaction?: boolean;
}

export interface SqliteStatement {
  get(...values: SqliteValue[]): unknown;
  run(...values: SqliteValue[]): { readonly changes: number | bigint };
}

export type SqliteValue = string | number | Uint8Array;

export interface SqliteStoreOptions {
  /** Name of the table. Default: `redrive_idempotency`. */
  readonly table?: string | undefined;
  /**
   * How long to wait while another process writes to the file, or while a transaction is open on the
   * handle. 100 to 60,000 ms. Default: 5,000.
   */
  readonly busyMs?: number | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
}

export interface SqliteStore extends TransactionalStore<SqliteHandle, boolean> {
  /** The statements that `migrate` runs, for programs that have migrations of their own. */
  readonly schema: string;
  /** Creates the table if it does not exist. */
  migrate(): Promise<void>;
}

export function sqliteStore(handle: SqliteHandle, options: SqliteStoreOptions = {}): SqliteStore {
  return new FileStore(handle, options);
}

class FileStore implements SqliteStore {
  readonly schema: string;
  readonly #sql: Statements;
  readonly #handle: SqliteHandle;
  readonly #clock: Clock;
  readonly #waiting: RetryOptions;
  readonly #prepared = new Map<string, SqliteStatement>();

  constructor(handle: SqliteHandle, options: SqliteStoreOptions) {
    const { table, busyMs = 5000, clock = systemClock } = options;
    assertRange("busyMs", busyMs, 100, 60_000);
    const name = tableName(table);
    this.schema = schemaOf(name);
    this.#sql = statementsOf(name);
    this.#handle = handle;
    this.#clock = clock;
    this.#waiting = { ...WAITING, totalBudgetMs: busyMs, clock };
  }

  async migrate(): Promise<void> {
    await this.#whenFree(() => this.#handle.exec(this.schema));
  }

  async claim(key: string, claim: Claim): Promise<ClaimResult> {
    assertClaim(key, claim);
    return await untilClear(key, () => this.#whenFree(() => this.#claimOnce(key, claim)));
  }

  /** Undefined if another process took the key between the two statements. */
  #claimOnce(key: string, claim: Claim): ClaimResult | undefined {
    const now = this.#clock.now();
    const row = this.#prepare("read").get(now, key, now);
    const found = row ? claimResultOf(row as KeyRow, claim) : undefined;
    if (found !== undefined) return found;
    const { fingerprint, owner, leaseMs, retentionMs } = claim;
    const leaseUntil = now + leaseMs;
    const values = [key, fingerprint, owner, leaseUntil, leaseUntil + retentionMs, now, now, now];
    const taken = this.#prepare("take").get(...values);
    return taken ? { kind: "claimed", ...(taken as { readonly takeovers: number }) } : undefined;
  }

  async renew(key: string, owner: string, leaseMs: number): Promise<boolean> {
    assertLease(leaseMs);
    return await this.#whenFree(() => {
      const now = this.#clock.now();
      const leaseUntil = now + leaseMs;
      return this.#changes("renew", leaseUntil, leaseUntil, key, owner, now) > 0;
    });
  }

  async settle(key: string, owner: string, settlement: Settlement): Promise<boolean> {
    assertSettlement(settlement);
    return await this.#whenFree(() => this.settleIn(this.#handle, key, owner, settlement));
  }

  settleIn(tx: SqliteHandle, key: string, owner: string, settlement: Settlement): boolean {
    assertSettlement(settlement);
    const { result, retentionMs } = settlement;
    const now = this.#clock.now();
    const statement = tx === this.#handle ? this.#prepare("settle") : tx.prepare(this.#sql.settle);
    return Number(statement.run(result, now + retentionMs, key, owner, now).changes) > 0;
  }

  async release(key: string, owner: string): Promise<boolean> {
    return await this.#whenFree(() => this.#changes("release", key, owner, this.#clock.now()) > 0);
  }

  async sweep(limit: number): Promise<number> {
    return await this.#whenFree(() => this.#changes("sweep", this.#clock.now(), limit));
  }

  #changes(name: keyof Statements, ...values: SqliteValue[]): number {
    return Number(this.#prepare(name).run(...values).changes);
  }

  #prepare(name: keyof Statements): SqliteStatement {
    const known = this.#prepared.get(name);
    if (known !== undefined) return known;
    const statement = this.#handle.prepare(this.#sql[name]);
    this.#prepared.set(name, statement);
    return statement;
  }

  /** Runs `access` when the file and the handle are free. Waits without blocking the process. */
  #whenFree<T>(access: () => T): T | Promise<T> {
    const accessNow = () => {
      this.#assertNoTransaction();
      return access();
    };
    try {
      return accessNow();
    } catch (error) {
      if (verdictOf(error) === "terminal") throw error;
    }
    return retry(accessNow, this.#waiting as RetryOptions<T>);
  }

  /** What we wrote in the transaction of somebody else would be lost if that is rolled back. */
  #assertNoTransaction(): void {
    if (!this.#handle.isTransaction && !this.#handle.inTransaction) return;
    const text = "a transaction is open on the SQLite handle of the idempotency store";
    throw new RedriveError("TRANSACTION_OPEN", text);
  }
}

const WAITING: RetryOptions = {
  maxAttempts: 1000,
  initialDelayMs: 1,
  maxDelayMs: 20,
  nested: "retry",
  rejectWith: "last-error",
  classify: (result) => ("error" in result ? verdictOf(result.error) : undefined),
};

/** SQLite's result code for a file that another connection has locked. */
const SQLITE_BUSY = 5;

/** Only a file or a handle that is in use is worth another try. */
function verdictOf(error: unknown): "transient" | "terminal" {
  const { code, errcode } = Object(error) as { code?: unknown; errcode?: unknown };
  const isInUse = errcode === SQLITE_BUSY || /^(TRANSACTION_OPEN|SQLITE_BUSY)/.test(String(code));
  return isInUse ? "transient" : "terminal";
}

type Statements = ReturnType<typeof statementsOf>;

/** The row of the key, if this owner holds it. */
const HELD = "key = ? AND owner = ? AND expires_at > ?";

/** `take` writes only if the key is still free, so two statements need no transaction. */
function statementsOf(table: string) {
  return {
    read: `SELECT fingerprint, lease_until - ? AS leaseLeftMs, result
      FROM ${table} WHERE key = ? AND expires_at > ?`,
    take: `INSERT INTO ${table} AS k (key, fingerprint, owner, takeovers, lease_until, expires_at)
      VALUES (?, ?, ?, 0, ?, ?)
      ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, owner = excluded.owner,
        takeovers = CASE WHEN k.expires_at > ? THEN k.takeovers + 1 ELSE 0 END,
        lease_until = excluded.lease_until, expires_at = excluded.expires_at, result = NULL
      WHERE k.expires_at <= ? OR (k.result IS NULL AND k.lease_until <= ?
        AND k.fingerprint = excluded.fingerprint)
      RETURNING takeovers`,
    renew: `UPDATE ${table} SET expires_at = expires_at + ? - lease_until, lease_until = ?
      WHERE ${HELD} AND result IS NULL`,
    settle: `UPDATE ${table} SET result = ?, expires_at = ? WHERE ${HELD}`,
    release: `DELETE FROM ${table} WHERE ${HELD} AND result IS NULL`,
    sweep: `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} WHERE expires_at <= ?
      ORDER BY expires_at LIMIT ?)`,
  };
}

function schemaOf(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (
  key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  owner TEXT NOT NULL,
  takeovers INTEGER NOT NULL,
  lease_until INTEGER NOT NULL, -- epoch ms
  expires_at INTEGER NOT NULL, -- epoch ms
  result BLOB -- null while the first request runs
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ${table.replace(/^.*\./, "")}_expires_at ON ${table} (expires_at);
`;
}
