/**
 * Store: the contract of a durable ledger of tasks. A store takes `now` as an argument, uses no
 * randomness and decides nothing, so one conformance suite (`stores/conformance.testing.ts`) holds
 * every store to the same behavior. Only leases and shares are judged by the store's own clock.
 *
 * The contract has two parts: the engine runs on `Store`, and users read through `TaskQuery`. The
 * tenant is part of every key and every query. Every call ends, also by a rejection, within
 * `STORE_CALL_MS`.
 */
import type { Batch, CommitResult, Create, CreateResult, StartedTask } from "./batch.ts";
import type { DestinationRow } from "./destination-row.ts";
import type { DocumentTable } from "./document-table.ts";
import type { LaneDue, WakeUpListener, WakeUps } from "./lane-due.ts";
import type { NodeReport, Renewal } from "./node-report.ts";
import type { TaskQuery } from "./task-query.ts";

/**
 * A commit that reaches a shared store this long after it was sent is refused: longer than a call may take,
 * and shorter than a node looks for claims that a failed commit may have made.
 */
export const COMMIT_EXPIRES_MS = 30_000;

/** The longest time that a call of a store takes. */
export const STORE_CALL_MS = 5000;

export interface Store {
  /** True if no other process can use the store. At boot, every other node is then dead. */
  readonly exclusive: boolean;

  /** In a shared store: how many items are worth a second commit beside a running one. Default: 128. */
  readonly overlapItems?: number;

  /** Its calls end within `STORE_CALL_MS` by themselves. Default: false. */
  readonly limitsCalls?: boolean;

  /** The number of partitions, a divisor of 256 (see `partition.ts`). An exclusive store has 1. */
  readonly partitions: number;

  /** The clock of the store, in epoch ms: the reference of engine time in a shared store. */
  clock(): Promise<number>;

  /**
   * Carries out a batch in this order: destinations, creates, settles, cancels, retryNows, claims,
   * documents. The order holds for the items of one destination. Resolves once all of it is durable,
   * and then sends the wake-ups. The items of one partition are done together or not at all.
   *
   * A rejection does not say what was done: some partitions may be done, and others may still be done
   * later. `StoreFullError` says that nothing was done. `StoreRefusedError` says that nothing was done
   * and that an item is the cause: it fails again.
   */
  commit(batch: Batch): Promise<CommitResult>;

  /**
   * Creates a task inside a transaction of the caller. The task and its key exist once the caller
   * commits, which also wakes the node that leases its partition. A rejection has a code and leaves
   * nothing of the task in the transaction. Undefined: this store cannot.
   */
  createIn?(tx: CallerTransaction, create: OutboxCreate): Promise<CreateResult>;

  /**
   * The lanes with a task that waits and is due within the given time, by partition, in pages. The
   * work of a call is bounded by `limit`, whatever waits for later. A page may be empty; only a null
   * cursor ends the list. A lane may be in several pages.
   */
  dueLanes(query: DueQuery): Promise<DuePage>;

  /**
   * Calls the listener as soon as another node has made a task wait in one of the followed partitions,
   * or the nodes of the fleet have changed. Best effort: a node reads what is due as well.
   */
  onWakeUp(listener: WakeUpListener): WakeUps;

  /**
   * Claims in these partitions whose node has no lease, by the store's clock, at most `limit`. In an
   * exclusive store: the claims of all other nodes.
   */
  lapsed(query: LapsedQuery): Promise<readonly StartedTask[]>;

  /** Claims held in the name of `nodeId`. The node releases those that it does not know. */
  claimsOf(nodeId: string, limit: number): Promise<readonly StartedTask[]>;

  /** Renews the lease of a node, and exchanges what nodes of a fleet must know of each other. */
  renew(report: NodeReport): Promise<Renewal>;

  /**
   * Ends the node's lease for good: a process that starts again is another node. The claims that the
   * node still holds then count as lapsed. A shared store rejects the reports of the node that arrive
   * later, for a minute at least.
   */
  retire(nodeId: string): Promise<void>;

  /**
   * The latest instant of a commit, 0 in an empty store. Engine time never starts before it. A shared
   * store may return 0 or an earlier one, because engine time follows its clock.
   */
  latestAt(): Promise<number>;

  /**
   * Adds a version of a policy. Versions never change. False, without a change, unless the newest
   * version, removed ones included, is `version - 1` (0: there is none).
   */
  addPolicy(policy: NewPolicy): Promise<boolean>;
  /** One version, or the newest; null if there is none. A removed one has `removedAt`. */
  getPolicy(tenantId: string, policyId: string, version?: number): Promise<PolicyRow | null>;
  /** The newest version of each policy that was not removed. */
  listPolicies(tenantId: string): Promise<readonly PolicyRow[]>;
  /**
   * Marks all versions as removed, so that no create can use them. False, without a change, if there
   * is none, or while an unfinished task uses one of them. A shared store may also return false if such
   * a task is being created.
   */
  removePolicy(tenantId: string, policyId: string, now: number): Promise<boolean>;

  getDestination(tenantId: string, name: string): Promise<DestinationRow | null>;
  /** The rows whose circuit is not closed, at most `limit`. */
  openCircuits(tenantId: string, limit: number): Promise<readonly DestinationRow[]>;

  /**
   * Removes tasks and keys whose retention is over, at most `limit`; returns how many. `limit` means
   * that more may be left, also if a store only visited that many without removing all of them. A
   * store may remove more at once, if that is cheap, as when it drops the table of a whole day.
   */
  sweep(retention: Retention): Promise<number>;

  /**
   * Removes rows that nothing uses: counts of zero, destinations without tasks whose row is
   * `isMeaningless`, saved guard state of destinations that do not exist, and nodes without a lease and
   * without claims. Each call examines about `limit` rows and continues at `cursor`.
   *
   * A shared store remembers the highest version of the removed rows (see `DestinationWrite`). A node
   * that reports an older version of a row that is gone gets a blank row with it.
   */
  removeUnused(query: UnusedQuery): Promise<UnusedPage>;

  /**
   * Inline policies that no stored task uses, of all tenants, in pages. Ended tasks count too: dead
   * letters may be redriven. Each call examines at most `limit` policies.
   */
  unusedPolicies(page: RowPage): Promise<UnusedPolicyPage>;

  /** Deletes those of the given inline policies that no stored task uses. */
  removeInline(policies: readonly Pick<PolicyRow, "tenantId" | "policyId">[]): Promise<void>;

  /** Removes the dead letters among the given tasks; returns how many. Their keys stay. */
  discard(tenantId: string, taskIds: readonly string[]): Promise<number>;

  /** What slows the database down over time. Undefined: this store has nothing to report. */
  upkeep?(): Promise<Upkeep>;

  readonly query: TaskQuery;
  readonly documents: DocumentTable;

  /** Safe to call twice. */
  close(): Promise<void>;
}

/** The state of a database that removes old versions of rows in the background. */
export interface Upkeep {
  /** Old versions of rows that still take space, and current rows. Estimates of the server. */
  readonly deadRows: number;
  readonly liveRows: number;
  /** The age of the oldest transaction of the server; while it runs, no dead rows are removed. */
  readonly oldestTransactionMs: number;
}

/**
 * A connection of the caller on which a transaction is open, such as a client of `pg`. A pool is not
 * one: it runs each statement on any of its connections.
 */
export interface CallerTransaction {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** It is never inserted as claimed: nobody can send it before the caller commits. */
export type OutboxCreate = Pick<Create, "task" | "fingerprint">;

/** A position in the rows of a store. */
export interface RowPage {
  /** How many rows one call examines. At least 1. */
  readonly limit: number;
  /** The cursor of the previous page; opaque. Default: the beginning. */
  readonly cursor?: string | undefined;
}

export interface DueQuery extends RowPage {
  readonly partitions: readonly number[];
  /** Tasks that are due from this instant on. An exclusive store may also return earlier ones. */
  readonly from: number;
  readonly before: number;
}

export interface DuePage {
  readonly lanes: readonly LaneDue[];
  /** Null on the last page. */
  readonly cursor: string | null;
}

export interface UnusedQuery extends RowPage {
  readonly now: number;
}

export interface UnusedPage {
  /** The number of removed rows. */
  readonly removed: number;
  /** Null: all rows were examined. The next call starts again. */
  readonly cursor: string | null;
}

export interface UnusedPolicyPage {
  readonly policies: readonly Pick<PolicyRow, "tenantId" | "policyId">[];
  readonly cursor: string | null;
}

export interface LapsedQuery {
  readonly nodeId: string;
  readonly partitions: readonly number[];
  readonly limit: number;
}

/** A policy to add. */
export type NewPolicy = Omit<PolicyRow, "removedAt">;

export interface PolicyRow {
  readonly tenantId: string;
  readonly policyId: string;
  /** From 1. */
  readonly version: number;
  /** Core's policy document as JSON. */
  readonly document: string;
  readonly createdAt: number;
  /** Null unless it was removed. */
  readonly removedAt: number | null;
}

/** A task with this version uses a preset unchanged, which needs no row. */
export const PRESET_VERSION = 0;

/** Begins the ids of inline policies, which tasks bring along. */
export const INLINE_PREFIX = "inline.";

export interface Retention {
  readonly now: number;
  /** SUCCEEDED and CANCELLED tasks that ended before this instant are removed. */
  readonly endedBefore: number;
  /** Dead letters that ended before this instant are removed. */
  readonly deadBefore: number;
  readonly limit: number;
  /** The tasks and keys of these partitions are removed, and others may be. Default: of all. */
  readonly partitions?: readonly number[];
  /**
   * The call continues an earlier one with the same store, so it need not look again where that one
   * has looked. Default: it looks everywhere.
   */
  readonly isContinued?: boolean;
  /** A store that blocks the event loop asks it after each removed task, and ends when it is true. */
  readonly isOver?: () => boolean;
}

/** How long a key is kept after its task has ended. */
export const KEY_RETENTION_MS = 86_400_000;
