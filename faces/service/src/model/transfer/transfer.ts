/**
 * Transfer: the part of a store that moves its content to another store, of the same kind or of
 * another one. It reads and writes rows as they are: ids, epochs, versions and instants are kept.
 */
import type { DestinationRow } from "../destination-row.ts";
import type { StoredDocument } from "../document-table.ts";
import type { PolicyRow, RowPage, Store } from "../store.ts";
import type { AttemptLog, RetryTask } from "../task.ts";

/** In the order in which they are moved: an attempt after its task. */
export const TRANSFER_KINDS = [
  "policy",
  "destination",
  "document",
  "task",
  "attempt",
  "key",
] as const;

export type TransferKind = (typeof TRANSFER_KINDS)[number];

export interface TransferRows {
  readonly policy: PolicyRow;
  /** Only rows that were written. Their tasks bring the others along. */
  readonly destination: DestinationRow;
  readonly document: StoredDocument;
  readonly task: TransferTask;
  readonly attempt: TransferAttempt;
  /** Only keys whose task was removed. The others come with their task. */
  readonly key: TransferKey;
}

export interface TransferTask extends RetryTask {
  /** The row of the key table that belongs to the task; null: there is none. */
  readonly key: KeyRow | null;
}

export interface KeyRow {
  readonly fingerprint: string;
  /** Null until the task has ended. */
  readonly expiresAt: number | null;
}

export interface TransferAttempt extends AttemptLog {
  readonly tenantId: string;
  readonly taskId: string;
}

export interface TransferKey extends KeyRow {
  readonly tenantId: string;
  readonly idempotencyKey: string;
  readonly taskId: string;
}

/** `same`: the store has an equal row. `different`: it has another one, which stays. */
export type WriteResult = "added" | "same" | "different";

export interface TransferPage<Kind extends TransferKind> {
  readonly rows: readonly TransferRows[Kind][];
  /** Null on the last page, and only there. */
  readonly cursor: string | null;
}

/** No node runs on the store meanwhile. */
export interface StoreTransfer {
  /** The nodes that have a lease, by the store's clock. None in an exclusive store. */
  liveNodes(): Promise<readonly string[]>;

  /**
   * The rows of a kind, of all tenants, in pages of at most `limit`. If nothing is written meanwhile,
   * each row is read once, and two reads give the same order.
   */
  read<Kind extends TransferKind>(kind: Kind, page: RowPage): Promise<TransferPage<Kind>>;

  /**
   * Adds the rows that the store lacks, with everything that follows from them, such as counts and due
   * times. At most 256 rows. Returns a result per row. Writing the same rows again changes nothing.
   * Durable once it resolves; after a rejection, some rows may be added. Rejects with
   * `StoreRefusedError` for an attempt whose task does not exist.
   */
  write<Kind extends TransferKind>(
    kind: Kind,
    rows: readonly TransferRows[Kind][],
  ): Promise<readonly WriteResult[]>;

  /** The results that `write` would have. The task of an attempt need not exist. */
  compare<Kind extends TransferKind>(
    kind: Kind,
    rows: readonly TransferRows[Kind][],
  ): Promise<readonly WriteResult[]>;
}

/** A store whose content can be moved. */
export interface MovableStore extends Store {
  readonly transfer: StoreTransfer;
}

/** Undefined: the content of the store cannot be moved. */
export function transferOf(store: Store): StoreTransfer | undefined {
  return (store as Partial<MovableStore>).transfer;
}
