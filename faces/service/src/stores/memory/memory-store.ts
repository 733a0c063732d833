/**
 * Memory store: maps and heaps, for tests and simulation, where several nodes of one process may
 * share it. Its content is lost with the process.
 */

import { type Clock, systemClock } from "@redrive/core";
import type { Batch, CommitResult } from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import type { Retention, Store } from "../../model/store.ts";
import { isEnded, type NewTask, type RetryTask, type TaskState } from "../../model/task.ts";
import type { MovableStore } from "../../model/transfer/transfer.ts";
import {
  applyCancel,
  applyClaim,
  applyCreate,
  applyDestination,
  applyRetryNow,
  applySettle,
  startedTaskOf,
} from "./apply.ts";
import { memoryDue, removeUnused } from "./memory-destinations.ts";
import { memoryDocuments } from "./memory-documents.ts";
import { MemoryNodes } from "./memory-nodes.ts";
import { memoryPolicies } from "./memory-policies.ts";
import { memoryQuery } from "./memory-query.ts";
import { memoryTransfer } from "./memory-transfer.ts";
import { keyOf, type Row, Rows, taskOf } from "./rows.ts";
import type { Tables } from "./tables.ts";

export interface MemoryStoreOptions {
  /** False: several nodes share it, so a boot says nothing about the others. Default: true. */
  readonly exclusive?: boolean;
  /** A divisor of 256. Default: 1 if it is exclusive, otherwise 64. */
  readonly partitions?: number;
  /** Default: the system clock. */
  readonly clock?: Pick<Clock, "now">;
}

/** What a client created, and what has happened to it since. */
export interface TaskParts {
  readonly task: NewTask;
  readonly state: TaskState;
}

/** A store that can also be written and read synchronously, for simulation. */
export interface MemoryStore extends MovableStore {
  commitNow(batch: Batch): CommitResult;
  peek(tenantId: string, taskId: string): RetryTask | undefined;
  /** The same without a copy. Neither part changes: a new state replaces the old one. */
  peekParts(tenantId: string, taskId: string): TaskParts | undefined;
  peekDestination(tenantId: string, name: string): DestinationRow | undefined;
  all(): readonly RetryTask[];
}

const SHARED_PARTITIONS = 64;

export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { exclusive = true, clock = systemClock } = options;
  const { partitions = exclusive ? 1 : SHARED_PARTITIONS } = options;
  const tables: Tables = {
    rows: new Rows(partitions),
    policies: new Map(),
    keys: new Map(),
    destinations: new Map(),
  };
  const nodes = new MemoryNodes(() => clock.now(), exclusive, tables.destinations);
  const documents = memoryDocuments();
  let latestAt = 0;
  const passed = (instant: number) => {
    latestAt = Math.max(latestAt, instant);
  };

  function commitNow(batch: Batch): CommitResult {
    passed(batch.now);
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
    nodes.addHints(batch.hints);
    for (const document of batch.documents) documents.write(document);
    return result;
  }

  return {
    exclusive,
    partitions,
    clock: async () => clock.now(),
    commitNow,
    commit: async (batch) => commitNow(batch),
    ...peeks(tables),
    ...memoryDue(tables),
    onHint: (listener) => nodes.onHint(listener),
    ...claimQueries(tables, nodes, exclusive),
    async renew(report) {
      passed(report.now);
      return nodes.renew(report);
    },
    async retire(nodeId) {
      nodes.retire(nodeId);
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
    removeUnused: (query) => removeUnused({ tables, documents, nodes, exclusive }, query),
    discard: async (tenantId, taskIds) => discard(tables, tenantId, taskIds),
    query: memoryQuery(tables),
    documents,
    transfer: memoryTransfer({ tables, documents, nodes, passed }),
    async close() {},
  };
}

function claimQueries(
  { rows }: Tables,
  nodes: MemoryNodes,
  exclusive: boolean,
): Pick<Store, "lapsed" | "claimsOf"> {
  const isLapsed = ({ state }: Row, nodeId: string) => {
    const owner = state.claimedBy ?? "";
    return owner !== nodeId && (exclusive || !nodes.hasLease(owner));
  };
  return {
    async lapsed({ nodeId, partitions, limit }) {
      const found: Row[] = [];
      for (const row of rows.claimed()) {
        if (found.length >= limit) break;
        const isOwn = partitions.includes(row.partition);
        if (isOwn && isLapsed(row, nodeId)) found.push(row);
      }
      return found.map(startedTaskOf);
    },
    async claimsOf(nodeId, limit) {
      const own = [...rows.claimed()].filter(({ state }) => state.claimedBy === nodeId);
      return own.slice(0, limit).map(startedTaskOf);
    },
  };
}

function peeks({
  rows,
  destinations,
}: Tables): Pick<MemoryStore, "peek" | "peekParts" | "peekDestination" | "all"> {
  return {
    peek(tenantId, taskId) {
      const row = rows.find(tenantId, taskId);
      return row && taskOf(row);
    },
    peekParts(tenantId, taskId) {
      const row = rows.find(tenantId, taskId);
      return row && { task: row.task, state: row.state };
    },
    peekDestination: (tenantId, name) => destinations.get(keyOf(tenantId, name)),
    all: () => [...rows.all()].map(taskOf),
  };
}

function discard({ rows }: Tables, tenantId: string, taskIds: readonly string[]): number {
  const found = [...new Set(taskIds)].flatMap((taskId) => rows.find(tenantId, taskId) ?? []);
  const dead = found.filter(({ state }) => state.status === "EXHAUSTED");
  for (const row of dead) rows.remove(row);
  return dead.length;
}

function sweep(tables: Tables, retention: Retention): number {
  const { now, limit } = retention;
  let removed = sweepTasks(tables, retention);
  for (const [key, { expiresAt }] of tables.keys) {
    if (removed >= limit) break;
    if (expiresAt > now) continue;
    tables.keys.delete(key);
    removed++;
  }
  return removed;
}

function sweepTasks({ rows }: Tables, retention: Retention): number {
  const { now, endedBefore, deadBefore, limit } = retention;
  if (!rows.mayHaveEndedBefore(Math.max(endedBefore, deadBefore))) return 0;
  let removed = 0;
  for (const row of rows.all()) {
    if (removed >= limit) break;
    const { status, finishedAt } = row.state;
    const before = status === "EXHAUSTED" ? deadBefore : endedBefore;
    if (!isEnded(status) || (finishedAt ?? now) >= before) continue;
    rows.remove(row);
    removed++;
  }
  return removed;
}
