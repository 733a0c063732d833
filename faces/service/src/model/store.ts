/**
 * Store: the contract of a durable ledger of tasks. A store takes `now` as an argument, reads no
 * clock, uses no randomness and decides nothing, so one conformance suite
 * (`stores/conformance.testing.ts`) holds every store to the same behavior.
 *
 * The contract has two parts: the engine runs on `Store`, and users read through `TaskQuery`. The
 * tenant is part of every key and every query.
 */
import type { Batch, CommitResult, StartedTask } from "./batch.ts";
import type { DestinationRow } from "./destination-row.ts";
import type { DocumentTable } from "./document-table.ts";
import type { Lane } from "./task.ts";
import type { TaskQuery } from "./task-query.ts";

export interface Store {
  /** True if no other process can use the store. At boot, every other node is then dead. */
  readonly exclusive: boolean;

  /**
   * Carries out a batch in this order: destinations, creates, settles, cancels, retryNows, claims,
   * documents. Resolves once all of it is durable. A rejection does not say what was done: the
   * caller must treat every item as unknown. `StoreFullError` says that nothing was done.
   * `StoreRefusedError` says that nothing was done and that an item is the cause: it fails again.
   */
  commit(batch: Batch): Promise<CommitResult>;

  /**
   * The lanes whose earliest waiting task is due before `before`, in pages. Each call examines at
   * most `limit` destinations, for any number of waiting tasks. A page may be empty; only a null
   * cursor ends the list.
   */
  nextDue(query: DueQuery): Promise<DuePage>;

  /**
   * Claims of other nodes whose lease ended at or before `now`, at most `limit`. In an exclusive
   * store: the claims of all other nodes.
   */
  lapsed(query: LapsedQuery): Promise<readonly StartedTask[]>;

  /** Claims held in the name of `nodeId`. The node releases those that it does not know. */
  claimsOf(nodeId: string, limit: number): Promise<readonly StartedTask[]>;

  /** Writes the node's lease. */
  renew(lease: NodeLease): Promise<void>;

  /** Removes the node's lease. The claims that the node still holds then count as lapsed. */
  retire(nodeId: string): Promise<void>;

  /** The latest stored instant, 0 in an empty store. Engine time never starts before it. */
  latestAt(): Promise<number>;

  /** Adds a version of a policy. False, without a change, if that version exists. */
  addPolicy(policy: PolicyRow): Promise<boolean>;
  /** One version, or the newest; null if there is none. */
  getPolicy(tenantId: string, policyId: string, version?: number): Promise<PolicyRow | null>;
  /** The newest version of each policy. */
  listPolicies(tenantId: string): Promise<readonly PolicyRow[]>;
  /** Removes all versions. False, without a change, while an unfinished task uses one of them. */
  removePolicy(tenantId: string, policyId: string): Promise<boolean>;

  getDestination(tenantId: string, name: string): Promise<DestinationRow | null>;
  /** The rows whose circuit is not closed, at most `limit`. */
  openCircuits(tenantId: string, limit: number): Promise<readonly DestinationRow[]>;

  /**
   * Removes tasks and keys whose retention is over, at most `limit`; returns how many. `limit` means
   * that more may be left, also if a store only visited that many without removing all of them.
   */
  sweep(retention: Retention): Promise<number>;

  /**
   * Removes rows that nothing uses: counts of zero, destinations without tasks, document, pause,
   * gate and open circuit, saved guard state of destinations that do not exist, and nodes without a
   * lease and without claims. Each call examines at most `limit` rows and continues at `cursor`.
   *
   * In a shared store, a destination whose row was ever written stays: a node that knows an old
   * version could take a new row with the same version for it.
   */
  removeUnused(query: UnusedQuery): Promise<UnusedPage>;

  /**
   * Inline policies that no stored task uses, of all tenants, in pages. Ended tasks count too: dead
   * letters may be redriven. Each call examines at most `limit` policies.
   */
  unusedPolicies(page: RowPage): Promise<UnusedPolicyPage>;

  /** Removes those of the given inline policies that no stored task uses. */
  removeInline(policies: readonly Pick<PolicyRow, "tenantId" | "policyId">[]): Promise<void>;

  /** Removes the dead letters among the given tasks; returns how many. Their keys stay. */
  discard(tenantId: string, taskIds: readonly string[]): Promise<number>;

  readonly query: TaskQuery;
  readonly documents: DocumentTable;

  /** Safe to call twice. */
  close(): Promise<void>;
}

export interface LaneDue {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly dueAt: number;
}

/** A position in the rows of a store. */
export interface RowPage {
  /** How many rows one call examines. At least 1. */
  readonly limit: number;
  /** The cursor of the previous page; opaque. Default: the beginning. */
  readonly cursor?: string | undefined;
}

export interface DueQuery extends RowPage {
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
  readonly now: number;
  readonly nodeId: string;
  readonly limit: number;
}

export interface NodeLease {
  readonly nodeId: string;
  readonly now: number;
  readonly leaseUntil: number;
}

export interface PolicyRow {
  readonly tenantId: string;
  readonly policyId: string;
  /** From 1. */
  readonly version: number;
  /** Core's policy document as JSON. */
  readonly document: string;
  readonly createdAt: number;
}

/** Begins the ids of inline policies, which tasks bring along. */
export const INLINE_PREFIX = "inline.";

export interface Retention {
  readonly now: number;
  /** SUCCEEDED and CANCELLED tasks that ended before this instant are removed. */
  readonly endedBefore: number;
  /** Dead letters that ended before this instant are removed. */
  readonly deadBefore: number;
  readonly limit: number;
}

/** How long a key is kept after its task has ended. */
export const KEY_RETENTION_MS = 86_400_000;
