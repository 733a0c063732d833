/**
 * Store: where tasks live between attempts. A dumb, durable ledger: it takes `now` and reads no
 * clock, draws no chance and decides nothing, which is what lets one suite
 * (`stores/conformance.ts`) hold every store to the same behaviour.
 *
 * Two halves: `Store` is what the engine runs on, `TaskQuery` what people look with. The tenant is
 * part of every key and of every question.
 */
import type { BreakerState, StopReason } from "@redrive/core";
import type { AttemptLog, EndedStatus, Lane, NewTask, RetryTask, TaskStatus } from "./task.ts";

export interface Store {
  /** True if no other process can use it: at boot every other node is dead for certain. */
  readonly exclusive: boolean;

  /**
   * Carries out a turn's work in this order: destinations, creates, settles, cancels, wakes,
   * claims, notes. Resolves once all of it is durable. A rejection says nothing about what was done: the
   * caller must take every item as unknown. `StoreFullError` says that nothing was.
   */
  commit(batch: Batch): Promise<CommitResult>;

  /** Lanes that have waiting tasks, with the earliest due instant of each. */
  nextDue(): Promise<readonly LaneDue[]>;

  /**
   * Claims of other nodes than the asking one that have no lease after `now` (in an exclusive store:
   * of all others), at most `limit`.
   */
  lapsed(query: LapsedQuery): Promise<readonly StartedTask[]>;

  /** Claims held in the name of `nodeId`: what its memory does not know is to be released. */
  claimsOf(nodeId: string, limit: number): Promise<readonly StartedTask[]>;

  /** Writes the node's lease. */
  renew(lease: NodeLease): Promise<void>;

  /** Removes the node's lease; what it still holds has lapsed. */
  retire(nodeId: string): Promise<void>;

  /** The highest instant stored, 0 in an empty store: engine time never starts before it. */
  latestAt(): Promise<number>;

  /** Adds a version of a policy. False, changing nothing, if that version exists. */
  addPolicy(policy: PolicyRow): Promise<boolean>;
  /** One version, or the newest; null if there is none. */
  getPolicy(tenantId: string, policyId: string, version?: number): Promise<PolicyRow | null>;
  /** The newest version of each. */
  listPolicies(tenantId: string): Promise<readonly PolicyRow[]>;
  /** Removes all versions. False, changing nothing, while a task that has not ended uses one. */
  removePolicy(tenantId: string, policyId: string): Promise<boolean>;

  getDestination(tenantId: string, name: string): Promise<DestinationRow | null>;
  listDestinations(tenantId: string): Promise<readonly DestinationRow[]>;

  /** Removes at most `limit` tasks and keys that are past their time; returns how many. */
  sweep(retention: Retention): Promise<number>;

  /** Removes those of the tasks that are dead letters; returns how many. Their keys live on. */
  discard(tenantId: string, taskIds: readonly string[]): Promise<number>;

  readonly query: TaskQuery;
  readonly documents: DocumentTable;

  /** Safe to call twice. */
  close(): Promise<void>;
}

/** One turn's work. At most 256 items, claims included, keep a transaction short. */
export interface Batch {
  readonly now: number;
  /** Who claims. */
  readonly nodeId: string;
  readonly destinations: readonly DestinationWrite[];
  readonly creates: readonly Create[];
  readonly settles: readonly Settle[];
  readonly cancels: readonly CancelRequest[];
  /** Tasks to run now rather than when they are due. */
  readonly retryNows: readonly TaskRef[];
  readonly claims: readonly ClaimRequest[];
  /** Written over whatever stands, one version on. They have no result. */
  readonly documents: readonly UnversionedDocument[];
}

/** A batch with nothing in it, to be filled. */
export const EMPTY_BATCH: Omit<Batch, "now" | "nodeId"> = {
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  documents: [],
};

/** A result per item, at its index. */
export interface CommitResult {
  /** Null: written. Otherwise the row that stands, because its version was another. */
  readonly destinations: readonly (DestinationRow | null)[];
  readonly creates: readonly CreateResult[];
  readonly settles: readonly SettleResult[];
  readonly cancels: readonly CancelResult[];
  readonly retryNows: readonly RetryNowResult[];
  readonly claims: readonly ClaimResult[];
}

export interface TaskRef {
  readonly tenantId: string;
  readonly taskId: string;
}

export interface Create {
  readonly task: NewTask;
  /**
   * Of the payload, for the key table; null: no row there (no key given, or a redrive, which goes
   * out under the key of its source).
   */
  readonly fingerprint: string | null;
  /**
   * Insert it already claimed, under the conditions of `ClaimRequest`; null: don't. The claim is the
   * STARTED record of attempt 1.
   */
  readonly claimVersion: number | null;
}

export type CreateResult =
  /** `started` is null unless it was inserted claimed; `row` is then why, if that was asked for. */
  | {
      readonly kind: "created";
      readonly started: StartedTask | null;
      readonly row: DestinationRow | null;
    }
  /** The key is known, with the same fingerprint: that task it is. */
  | { readonly kind: "replayed"; readonly taskId: string }
  /** The key is known, with another fingerprint. */
  | { readonly kind: "conflict"; readonly taskId: string }
  /** The source of the redrive has been redriven already. */
  | { readonly kind: "redriven"; readonly taskId: string };

/** A claim: the STARTED record. Everything an attempt needs, and everything a decision needs. */
export interface StartedTask extends NewTask {
  /** The store's own short name for the task, handed back when it is settled. */
  readonly ref: number;
  readonly attemptNumber: number;
  readonly claimEpoch: number;
  readonly claimedAt: number;
  readonly nextAttemptAt: number;
  readonly lastDelayMs: number;
  readonly abandonedCount: number;
  readonly cancelRequestedAt: number | null;
  /** What the attempt before was answered; null: nothing, or there was none. */
  readonly lastStatus: number | null;
}

/**
 * Takes waiting tasks that are due, earliest first, and starts their next attempt. Never takes what
 * is IN_FLIGHT. Yields nothing unless the destination's row has `version`, and nothing if the batch's
 * own write of that row was refused: a node claims only under the pause, gate and circuit that it
 * knows of, and of two that want to probe, one does.
 */
export interface ClaimRequest {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly limit: number;
  /**
   * What falls due within so many milliseconds is claimed too, while `aheadLimit` are not reached.
   * Negative: only what has been due for at least so long is claimed.
   */
  readonly aheadMs: number;
  readonly aheadLimit: number;
  /** 0 for a destination that has no row. */
  readonly version: number;
}

export interface ClaimResult {
  readonly tasks: readonly StartedTask[];
  /** When the next task left in the lane is due; null when the lane is empty. */
  readonly nextDueAt: number | null;
  /** Not null: nothing was claimed, because this is the row. */
  readonly row: DestinationRow | null;
}

/**
 * Ends a claim. Refused, changing nothing, unless the task is IN_FLIGHT at this `claimEpoch`. If a
 * cancel was requested meanwhile, whatever is not SUCCEEDED becomes CANCELLED.
 */
export interface Settle extends TaskRef {
  readonly ref: number;
  readonly claimEpoch: number;
  readonly status: Exclude<TaskStatus, "IN_FLIGHT">;
  readonly reason: StopReason | null;
  readonly lane: Lane;
  /** For PENDING. */
  readonly nextAttemptAt: number;
  readonly lastDelayMs: number;
  readonly abandonedCount: number;
  /** Null: nothing left the house, and the attempt's number is given back. */
  readonly attempt: AttemptLog | null;
  /** Without an attempt: the task's last error from now on. Default: it stays as it is. */
  readonly lastError?: string;
  readonly onEnd?: OnEnd;
}

/** Tasks that are created with the end of another, by how that ends: they share its commit. */
export type OnEnd = Readonly<Partial<Record<EndedStatus, NewTask>>>;

export interface CancelRequest extends TaskRef {
  /** Created if this cancel is what ends it. */
  readonly onEnd?: OnEnd;
}

export type SettleResult = "fenced" | Exclude<TaskStatus, "IN_FLIGHT">;

export type CancelResult =
  | { readonly kind: "cancelled" }
  /** An attempt is under way: its success wins, anything else ends CANCELLED. */
  | { readonly kind: "requested"; readonly cancelRequestedAt: number }
  /** It had ended otherwise. */
  | { readonly kind: "ended"; readonly status: TaskStatus }
  | { readonly kind: "unknown" };

export type RetryNowResult =
  | { readonly kind: "rescheduled"; readonly destination: string; readonly lane: Lane }
  | { readonly kind: "not-pending"; readonly status: TaskStatus }
  | { readonly kind: "unknown" };

export interface LaneDue {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly dueAt: number;
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

/** What a fleet shares of a destination, and the limits people set for it. */
export interface DestinationRow {
  readonly tenantId: string;
  readonly name: string;
  /** One more with every write. */
  readonly version: number;
  /** Core's destination document as JSON; null: all defaults. */
  readonly document: string | null;
  readonly pausedAt: number | null;
  /** Nobody calls before this instant (Retry-After); 0: no gate. */
  readonly gateUntil: number;
  readonly breakerState: BreakerState;
  readonly openUntil: number;
  readonly openCount: number;
}

/** Writes `row` if the stored version is `row.version - 1` (0: none is stored). */
export interface DestinationWrite {
  readonly row: DestinationRow;
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

export interface Retention {
  readonly now: number;
  /** SUCCEEDED and CANCELLED tasks that ended before this go. */
  readonly endedBefore: number;
  /** Dead letters that ended before this go. */
  readonly deadBefore: number;
  readonly limit: number;
}

/**
 * Small documents that outlive a process and belong to no task: redrives under way, the check of the
 * encryption key, what guards have learnt. A kind says whose they are.
 */
export interface DocumentTable {
  /**
   * Durable once it resolves. False, changing nothing, unless the stored version is `version - 1`
   * (0: none is stored): of two that write over one version, one does.
   */
  put(note: StoredDocument): Promise<boolean>;
  get(kind: string, tenantId: string, id: string): Promise<StoredDocument | null>;
  /** Of all tenants, by id. */
  list(kind: string): Promise<readonly StoredDocument[]>;
  /** False if there was none. */
  remove(kind: string, tenantId: string, id: string): Promise<boolean>;
}

export type UnversionedDocument = Omit<StoredDocument, "version">;

export interface StoredDocument {
  readonly kind: string;
  readonly tenantId: string;
  readonly id: string;
  /** From 1. */
  readonly version: number;
  readonly text: string;
}

/** How long a key is kept after its task has ended. */
export const KEY_RETENTION_MS = 86_400_000;

/** The looking half. Whatever is not the tenant's does not exist. */
export interface TaskQuery {
  get(tenantId: string, taskId: string): Promise<RetryTask | null>;

  /** Newest first. Bodies are left out (null). */
  list(tenantId: string, filter: TaskFilter, page: Page): Promise<TaskPage>;

  /** Per destination and status; zeroes are left out. */
  count(tenantId: string): Promise<readonly TaskCount[]>;

  /** Oldest first. */
  attempts(tenantId: string, taskId: string, page: Page): Promise<AttemptPage>;

  /** Every task of the tenant with its body, oldest first, in pages. */
  export(tenantId: string, page: Page): Promise<TaskPage>;
}

/** All that are given must hold. Ranges include `...From` and exclude `...To`. */
export interface TaskFilter {
  readonly status?: TaskStatus;
  readonly policyId?: string;
  readonly destination?: string;
  readonly label?: { readonly name: string; readonly value: string };
  readonly idempotencyKey?: string;
  readonly reason?: string;
  readonly lastStatus?: number;
  readonly createdFrom?: number;
  readonly createdTo?: number;
  readonly finishedFrom?: number;
  readonly finishedTo?: number;
}

export interface Page {
  /** 1 to 250. */
  readonly limit: number;
  /** From the page before; opaque. */
  readonly cursor?: string;
}

export interface TaskPage {
  readonly tasks: readonly RetryTask[];
  /** Null on the last page. */
  readonly cursor: string | null;
}

export interface AttemptPage {
  readonly attempts: readonly AttemptLog[];
  readonly cursor: string | null;
}

export interface TaskCount {
  readonly destination: string;
  readonly status: TaskStatus;
  readonly count: number;
}

/** The disk is full: nothing of the batch was done, and nothing is broken. */
export class StoreFullError extends Error {
  override readonly name: string = "StoreFullError";
}

/** The store can no longer vouch for what it holds: the process must stop and start anew. */
export class StoreBrokenError extends Error {
  override readonly name: string = "StoreBrokenError";
}

/** The row of a destination nobody has written yet. */
export function blankDestination(tenantId: string, name: string): DestinationRow {
  return {
    tenantId,
    name,
    version: 0,
    document: null,
    pausedAt: null,
    gateUntil: 0,
    breakerState: "CLOSED",
    openUntil: 0,
    openCount: 0,
  };
}
