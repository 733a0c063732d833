/**
 * Memory store: maps and heaps, for tests and simulation, where several nodes of one process may
 * share it. Its content is lost with the process.
 */

import type { Batch, CommitResult } from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import type { Retention, Store } from "../../model/store.ts";
import { isEnded, type RetryTask } from "../../model/task.ts";
import {
  applyCancel,
  applyClaim,
  applyCreate,
  applyDestination,
  applyRetryNow,
  applySettle,
  startedTask,
  type Tables,
} from "./apply.ts";
import { memoryDue, removeUnused } from "./memory-destinations.ts";
import { memoryDocuments } from "./memory-documents.ts";
import { memoryPolicies } from "./memory-policies.ts";
import { memoryQuery } from "./memory-query.ts";
import { keyOf, type Row, Rows, taskOf } from "./rows.ts";

export interface MemoryStoreOptions {
  /** False: several nodes share it, so a boot says nothing about the others. Default: true. */
  readonly exclusive?: boolean;
}

/** A store that can also be written and read synchronously, for simulation. */
export interface MemoryStore extends Store {
  commitNow(batch: Batch): CommitResult;
  peek(tenantId: string, taskId: string): RetryTask | undefined;
  peekDestination(tenantId: string, name: string): DestinationRow | undefined;
  all(): readonly RetryTask[];
}

export function memoryStore({ exclusive = true }: MemoryStoreOptions = {}): MemoryStore {
  const tables: Tables = { rows: new Rows(), keys: new Map(), destinations: new Map() };
  const leases = new Map<string, number>();
  const documents = memoryDocuments();
  let latestAt = 0;

  function commitNow(batch: Batch): CommitResult {
    latestAt = Math.max(latestAt, batch.now);
    const { now, nodeId } = batch;
    const writer = { now, nodeId, refused: new Set<string>() };
    const result = {
      destinations: batch.destinations.map((write) => applyDestination(tables, write, writer)),
      creates: batch.creates.map((create) => applyCreate(tables, create, writer)),
      settles: batch.settles.map((settle) => applySettle(tables, settle, writer)),
      cancels: batch.cancels.map((ref) => applyCancel(tables, ref, writer)),
      retryNows: batch.retryNows.map((ref) => applyRetryNow(tables, ref, writer)),
      claims: batch.claims.map((request) => applyClaim(tables, request, writer)),
    };
    for (const document of batch.documents) documents.write(document);
    return result;
  }

  function isLapsed({ state }: Row, nodeId: string, now: number): boolean {
    const owner = state.claimedBy ?? "";
    return owner !== nodeId && (exclusive || (leases.get(owner) ?? 0) <= now);
  }

  return {
    exclusive,
    commitNow,
    commit: async (batch) => commitNow(batch),
    ...peeks(tables),
    ...memoryDue(tables),
    async lapsed({ now, nodeId, limit }) {
      const found: Row[] = [];
      for (const row of tables.rows.claimed()) {
        if (found.length >= limit) break;
        if (isLapsed(row, nodeId, now)) found.push(row);
      }
      return found.map(startedTask);
    },
    async claimsOf(nodeId, limit) {
      const own = [...tables.rows.claimed()].filter(({ state }) => state.claimedBy === nodeId);
      return own.slice(0, limit).map(startedTask);
    },
    async renew({ nodeId, now, leaseUntil }) {
      latestAt = Math.max(latestAt, now);
      leases.set(nodeId, leaseUntil);
    },
    async retire(nodeId) {
      leases.delete(nodeId);
    },
    latestAt: async () => latestAt,
    ...memoryPolicies(tables),
    async getDestination(tenantId, name) {
      return tables.destinations.get(keyOf(tenantId, name)) ?? null;
    },
    async openCircuits(tenantId, limit) {
      const own = [...tables.destinations.values()].filter((row) => row.tenantId === tenantId);
      return own.filter(({ breakerState }) => breakerState !== "CLOSED").slice(0, limit);
    },
    sweep: async (retention) => sweep(tables, retention),
    removeUnused: (query) => removeUnused({ tables, documents, leases, exclusive }, query),
    discard: async (tenantId, taskIds) => discard(tables, tenantId, taskIds),
    query: memoryQuery(tables),
    documents,
    async close() {},
  };
}

function peeks({
  rows,
  destinations,
}: Tables): Pick<MemoryStore, "peek" | "peekDestination" | "all"> {
  return {
    peek(tenantId, taskId) {
      const row = rows.find(tenantId, taskId);
      return row && taskOf(row);
    },
    peekDestination: (tenantId, name) => destinations.get(keyOf(tenantId, name)),
    all: () => [...rows.all()].map(taskOf),
  };
}

function discard({ rows }: Tables, tenantId: string, taskIds: readonly string[]): number {
  const found = taskIds.flatMap((taskId) => rows.find(tenantId, taskId) ?? []);
  const dead = found.filter(({ state }) => state.status === "EXHAUSTED");
  for (const row of dead) rows.remove(row);
  return dead.length;
}

function sweep({ rows, keys }: Tables, retention: Retention): number {
  const { now, endedBefore, deadBefore, limit } = retention;
  const old = [...rows.all()].filter(({ state }) => {
    const before = state.status === "EXHAUSTED" ? deadBefore : endedBefore;
    return isEnded(state.status) && (state.finishedAt ?? now) < before;
  });
  const removed = old.slice(0, limit);
  for (const row of removed) rows.remove(row);
  const expired = [...keys].filter(([, { expiresAt }]) => expiresAt <= now);
  const forgotten = expired.slice(0, limit - removed.length);
  for (const [key] of forgotten) keys.delete(key);
  return removed.length + forgotten.length;
}
