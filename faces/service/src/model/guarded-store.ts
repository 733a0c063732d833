/**
 * Guarded store: a store whose calls end in time, are refused once it is closed, are measured, and fail
 * with coded errors, as far as its rules say so. It is written out method by method, so that a reader
 * and a compiler see every call. A guard of a guarded store replaces its rules by those of both: a call
 * never passes two guards.
 */
import { type Clock, messageOf, RedriveError } from "@redrive/core";
import type { Batch, CommitResult } from "./batch.ts";
import type { DocumentTable } from "./document-table.ts";
import { serviceError, stopped } from "./errors.ts";
import { STORE_CALL_MS, type Store } from "./store.ts";
import { ReadAbortedError, StoreFullError, StoreRefusedError } from "./store-errors.ts";
import type { TaskQuery } from "./task-query.ts";
import { type StoreTransfer, transferOf } from "./transfer.ts";

/** What a guard does with each call. Every rule is off by default. */
export interface StoreRules {
  /** A call that takes longer is reported as failed, although it may still take effect. */
  readonly limit?: { readonly clock: Clock; readonly ms: number };
  /** Once it is true, calls are refused as those to a stopped service: the store would report a failure. */
  readonly lifetime?: { isClosed: boolean };
  /** Measures the commits that succeed. */
  readonly meter?: CommitMeter;
  /**
   * Failures get a code (`storeFailure`). It receives the original error of each one. A coded error is
   * a refusal, and an aborted read is the caller's wish: the store works.
   */
  readonly failed?: (error: unknown) => void;
}

export function guardedStore(store: Store, rules: StoreRules): Store {
  if (!(store instanceof GuardedStore)) return new GuardedStore(store, rules);
  return new GuardedStore(store.inner, { ...store.rules, ...rules });
}

/**
 * The limit of a store that other processes use, unless it limits its calls itself. An exclusive store
 * takes as long as its disk takes.
 */
export function limitOf(
  clock: Clock,
  { exclusive, limitsCalls = false }: Store,
): Pick<StoreRules, "limit"> {
  return exclusive || limitsCalls ? {} : { limit: { clock, ms: STORE_CALL_MS } };
}

type Call<T> = () => Promise<T>;
/** Makes a call of a method under the rules. `isRead`: nothing is to be stored. */
type RunCall = <T>(name: string, isRead: boolean, call: Call<T>) => Promise<T>;

class GuardedStore implements Store {
  readonly inner: Store;
  readonly rules: StoreRules;
  readonly exclusive: boolean;
  readonly limitsCalls: boolean;
  readonly partitions: number;
  readonly overlapItems?: number;
  readonly query: TaskQuery;
  readonly documents: DocumentTable;
  readonly transfer?: StoreTransfer;
  readonly createIn?: NonNullable<Store["createIn"]>;
  readonly upkeep?: NonNullable<Store["upkeep"]>;

  constructor(inner: Store, rules: StoreRules) {
    const { createIn, upkeep, overlapItems } = inner;
    const transfer = transferOf(inner);
    this.inner = inner;
    this.rules = rules;
    this.exclusive = inner.exclusive;
    this.limitsCalls = inner.limitsCalls === true || rules.limit !== undefined;
    this.partitions = inner.partitions;
    this.query = guardedQuery(inner.query, this.#run);
    this.documents = guardedDocuments(inner.documents, this.#run);
    if (overlapItems !== undefined) this.overlapItems = overlapItems;
    if (transfer !== undefined) this.transfer = guardedTransfer(transfer, this.#run);
    if (createIn !== undefined) {
      this.createIn = (tx, create) =>
        this.#run("createIn", false, () => createIn.call(inner, tx, create));
    }
    if (upkeep !== undefined) {
      this.upkeep = () => this.#run("upkeep", true, () => upkeep.call(inner));
    }
  }

  clock: Store["clock"] = () => this.#run("clock", true, () => this.inner.clock());

  commit: Store["commit"] = async (batch) => {
    const { meter } = this.rules;
    const startMs = meter?.clock.monotonicMs() ?? 0;
    const result = await this.#run("commit", false, () => this.inner.commit(batch));
    meter?.record(batch, result, startMs);
    return result;
  };

  dueLanes: Store["dueLanes"] = (due) =>
    this.#run("dueLanes", true, () => this.inner.dueLanes(due));
  onWakeUp: Store["onWakeUp"] = (listener) => this.inner.onWakeUp(listener);
  lapsed: Store["lapsed"] = (lapsed) => this.#run("lapsed", true, () => this.inner.lapsed(lapsed));
  claimsOf: Store["claimsOf"] = (nodeId, limit) =>
    this.#run("claimsOf", true, () => this.inner.claimsOf(nodeId, limit));
  renew: Store["renew"] = (report) => this.#run("renew", false, () => this.inner.renew(report));
  retire: Store["retire"] = (nodeId) => this.#run("retire", false, () => this.inner.retire(nodeId));
  latestAt: Store["latestAt"] = () => this.#run("latestAt", true, () => this.inner.latestAt());
  addPolicy: Store["addPolicy"] = (policy) =>
    this.#run("addPolicy", false, () => this.inner.addPolicy(policy));
  getPolicy: Store["getPolicy"] = (tenantId, policyId, version) =>
    this.#run("getPolicy", true, () => this.inner.getPolicy(tenantId, policyId, version));
  listPolicies: Store["listPolicies"] = (tenantId) =>
    this.#run("listPolicies", true, () => this.inner.listPolicies(tenantId));
  removePolicy: Store["removePolicy"] = (tenantId, policyId, now) =>
    this.#run("removePolicy", false, () => this.inner.removePolicy(tenantId, policyId, now));
  getDestination: Store["getDestination"] = (tenantId, name) =>
    this.#run("getDestination", true, () => this.inner.getDestination(tenantId, name));
  openCircuits: Store["openCircuits"] = (tenantId, limit) =>
    this.#run("openCircuits", true, () => this.inner.openCircuits(tenantId, limit));
  sweep: Store["sweep"] = (retention) =>
    this.#run("sweep", false, () => this.inner.sweep(retention));
  removeUnused: Store["removeUnused"] = (unused) =>
    this.#run("removeUnused", false, () => this.inner.removeUnused(unused));
  unusedPolicies: Store["unusedPolicies"] = (page) =>
    this.#run("unusedPolicies", true, () => this.inner.unusedPolicies(page));
  removeInline: Store["removeInline"] = (policies) =>
    this.#run("removeInline", false, () => this.inner.removeInline(policies));
  discard: Store["discard"] = (tenantId, taskIds) =>
    this.#run("discard", false, () => this.inner.discard(tenantId, taskIds));

  close: Store["close"] = () => this.inner.close();

  readonly #run: RunCall = (name, isRead, call) => {
    const { limit, failed, lifetime } = this.rules;
    if (lifetime?.isClosed) return Promise.reject(stopped());
    const running = limit === undefined ? call() : within(limit.clock, limit.ms, name, call());
    return failed === undefined ? running : running.catch(coded(failed, isRead));
  };
}

function guardedQuery(inner: TaskQuery, run: RunCall): TaskQuery {
  return {
    get: (tenantId, taskId) => run("get", true, () => inner.get(tenantId, taskId)),
    list: (tenantId, filter, page) => run("list", true, () => inner.list(tenantId, filter, page)),
    listIds: (tenantId, filter, page) =>
      run("listIds", true, () => inner.listIds(tenantId, filter, page)),
    count: (tenantId) => run("count", true, () => inner.count(tenantId)),
    countTenant: (tenantId) => run("countTenant", true, () => inner.countTenant(tenantId)),
    destinations: (tenantId, page) =>
      run("destinations", true, () => inner.destinations(tenantId, page)),
    destination: (tenantId, name) =>
      run("destination", true, () => inner.destination(tenantId, name)),
    countDestinations: (tenantId) =>
      run("countDestinations", true, () => inner.countDestinations(tenantId)),
    attempts: (tenantId, taskId, page) =>
      run("attempts", true, () => inner.attempts(tenantId, taskId, page)),
    export: (tenantId, page) => run("export", true, () => inner.export(tenantId, page)),
    oldestOpen: (tenantId) => run("oldestOpen", true, () => inner.oldestOpen(tenantId)),
  };
}

function guardedDocuments(inner: DocumentTable, run: RunCall): DocumentTable {
  return {
    put: (document) => run("put", false, () => inner.put(document)),
    get: (kind, tenantId, id) => run("get", true, () => inner.get(kind, tenantId, id)),
    getMany: (kind, keys) => run("getMany", true, () => inner.getMany(kind, keys)),
    list: (kind, page) => run("list", true, () => inner.list(kind, page)),
    remove: (kind, tenantId, id) => run("remove", false, () => inner.remove(kind, tenantId, id)),
  };
}

export function guardedTransfer(inner: StoreTransfer, run: RunCall): StoreTransfer {
  return {
    liveNodes: () => run("liveNodes", true, () => inner.liveNodes()),
    read: (kind, page) => run("read", true, () => inner.read(kind, page)),
    write: (kind, rows) => run("write", false, () => inner.write(kind, rows)),
    compare: (kind, rows) => run("compare", true, () => inner.compare(kind, rows)),
  };
}

export function within<T>(clock: Clock, ms: number, name: string, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    // The error is made only when it is needed: its stack trace costs more than most calls.
    const fail = () => reject(new Error(`the store did not respond to ${name} within ${ms} ms`));
    const cancel = clock.alarm(ms, fail, true);
    // Not `finally`, which makes four more promises.
    call.then(
      (result) => {
        cancel();
        resolve(result);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}

function coded(failed: (error: unknown) => void, isRead: boolean) {
  return (error: unknown): never => {
    if (error instanceof ReadAbortedError) throw error.cause;
    if (!(error instanceof RedriveError)) failed(error);
    throw storeFailure(error, isRead);
  };
}

/** The coded error for a failure of the store. `isRead`: nothing was to be stored. */
export function storeFailure(error: unknown, isRead = false): RedriveError {
  if (error instanceof RedriveError) return error;
  const text = messageOf(error);
  if (error instanceof StoreRefusedError) {
    return serviceError("STORE_REFUSED", `nothing was stored: ${text}`, error);
  }
  if (error instanceof StoreFullError) {
    return serviceError("STORE_FULL", `nothing was stored: ${text}`, error);
  }
  const what = isRead ? "the store could not be read" : "it is unknown what was stored";
  return serviceError("STORE_UNAVAILABLE", `${what}: ${text}`, error);
}

/** A successful commit. */
export interface CommitSample {
  /** Number of tasks created, settled, canceled, rescheduled and claimed, and of destination rows. */
  readonly items: number;
  readonly durationMs: number;
}

export type CommitListener = (sample: CommitSample) => void;

/** Tells its listeners the size and the duration of commits. */
export class CommitMeter {
  readonly clock: Clock;
  readonly #listeners = new Set<CommitListener>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Returns a function that removes the listener. */
  onCommit(listener: CommitListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  record(batch: Batch, { claims }: CommitResult, startMs: number): void {
    if (this.#listeners.size === 0) return;
    let items = batch.destinations.length + batch.creates.length + batch.settles.length;
    items += batch.cancels.length + batch.retryNows.length;
    for (const { tasks } of claims) items += tasks.length;
    const sample = { items, durationMs: this.clock.monotonicMs() - startMs };
    for (const listener of this.#listeners) listener(sample);
  }
}
