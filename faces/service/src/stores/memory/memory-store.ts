/**
 * Memory store: maps and heaps, for tests and simulation, where several nodes of one process may
 * share it. Its content is lost with the process.
 */
import { type Clock, systemClock } from "@redrive/core";
import type { Batch, CommitResult } from "../../model/batch.ts";
import { type DestinationRow, isMeaningless } from "../../model/destination-row.ts";
import { INLINE_PREFIX, type PolicyRow, type Retention, type Store } from "../../model/store.ts";
import { isEnded, type NewTask, type RetryTask, type TaskState } from "../../model/task.ts";
import type { MovableStore } from "../../model/transfer.ts";
import {
  applyCancel,
  applyClaim,
  applyCreate,
  applyDestination,
  applyRetryNow,
  applySettle,
  startedTaskOf,
} from "./apply.ts";
import { memoryDue, removeRows, removeUnused } from "./memory-destinations.ts";
import { memoryDocuments } from "./memory-documents.ts";
import { MemoryNodes } from "./memory-nodes.ts";
import { memoryQuery } from "./memory-query.ts";
import { memoryTransfer } from "./memory-transfer.ts";
import { keyOf, type Row, Rows, type Tables, taskOf } from "./rows.ts";

interface MemoryStoreOptions {
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
  /** Removes all rows that are `isMeaningless`, also those of destinations with tasks. */
  forgetRows(now: number): void;
  all(): readonly RetryTask[];
}

const SHARED_PARTITIONS = 64;

const EXPIRED = "the commit arrived after it had expired";

export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { exclusive = true, clock = systemClock } = options;
  const { partitions = exclusive ? 1 : SHARED_PARTITIONS } = options;
  const tables: Tables = {
    rows: new Rows(partitions),
    policies: new Map(),
    keys: new Map(),
    destinations: new Map(),
    lastRemoved: 0,
  };
  const nodes = new MemoryNodes(() => clock.now(), exclusive, tables);
  const documents = memoryDocuments();
  let latestAt = 0;
  const passed = (instant: number) => {
    latestAt = Math.max(latestAt, instant);
  };

  function commitNow(batch: Batch): CommitResult {
    if (batch.expiresAt !== null && clock.now() > batch.expiresAt) throw new Error(EXPIRED);
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
    nodes.tell(batch.wakeUps);
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
    forgetRows: (now) => void removeRows(tables, exclusive, (row) => isMeaningless(row, now)),
    ...memoryDue(tables),
    onWakeUp: (listener) => nodes.onWakeUp(listener),
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
  const { now, limit, partitions } = retention;
  let removed = sweepTasks(tables, retention);
  for (const [key, { expiresAt, taskId }] of tables.keys) {
    if (removed >= limit) break;
    if (expiresAt > now) continue;
    if (partitions?.includes(tables.rows.partitionOf(taskId)) === false) continue;
    tables.keys.delete(key);
    removed++;
  }
  return removed;
}

function sweepTasks({ rows }: Tables, retention: Retention): number {
  const { now, endedBefore, deadBefore, limit, partitions } = retention;
  if (!rows.mayHaveEndedBefore(Math.max(endedBefore, deadBefore))) return 0;
  let removed = 0;
  for (const row of rows.all()) {
    if (removed >= limit) break;
    const { status, finishedAt } = row.state;
    const before = status === "EXHAUSTED" ? deadBefore : endedBefore;
    if (!isEnded(status) || (finishedAt ?? now) >= before) continue;
    if (partitions?.includes(row.partition) === false) continue;
    rows.remove(row);
    removed++;
  }
  return removed;
}

// Memory policies: the versions of policies of the memory store.

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

function memoryPolicies({ rows, policies }: Tables): PolicyTable {
  const versionsOf = (tenantId: string, policyId: string) =>
    [...policies.values()]
      .filter((policy) => policy.tenantId === tenantId && policy.policyId === policyId)
      .sort((one, other) => other.version - one.version);
  const write = (policy: PolicyRow) => policies.set(positionOf(policy), policy);
  return {
    async addPolicy(policy) {
      const newest = versionsOf(policy.tenantId, policy.policyId)[0]?.version ?? 0;
      if (newest !== policy.version - 1) return false;
      write({ ...policy, removedAt: null });
      return true;
    },
    async getPolicy(tenantId, policyId, version) {
      if (version === undefined) return versionsOf(tenantId, policyId)[0] ?? null;
      return policies.get(keyOf(tenantId, policyId, String(version))) ?? null;
    },
    async listPolicies(tenantId) {
      const own = [...policies.values()].filter((policy) => policy.tenantId === tenantId);
      return own
        .filter(({ removedAt }) => removedAt === null)
        .filter(({ policyId, version }) => versionsOf(tenantId, policyId)[0]?.version === version)
        .sort((one, other) => (one.policyId < other.policyId ? -1 : 1));
    },
    async removePolicy(tenantId, policyId, now) {
      for (const { task, state } of rows.all()) {
        const isUser = task.tenantId === tenantId && task.policyId === policyId;
        if (isUser && !isEnded(state.status)) return false;
      }
      const live = versionsOf(tenantId, policyId).filter(({ removedAt }) => removedAt === null);
      for (const policy of live) write({ ...policy, removedAt: now });
      return live.length > 0;
    },
    async removeInline(unused) {
      const used = usedBy(rows);
      for (const { tenantId, policyId } of unused) {
        if (!policyId.startsWith(INLINE_PREFIX) || used.has(keyOf(tenantId, policyId))) continue;
        for (const policy of versionsOf(tenantId, policyId)) policies.delete(positionOf(policy));
      }
    },
    async unusedPolicies({ limit, cursor = "" }) {
      const used = usedBy(rows);
      const ids = new Map(
        [...policies.values()].map(({ tenantId, policyId }) => [
          keyOf(tenantId, policyId),
          { tenantId, policyId },
        ]),
      );
      const rest = [...ids].filter(([key]) => key > cursor).sort(([a], [b]) => (a < b ? -1 : 1));
      const page = rest.slice(0, limit);
      const unused = page.filter(
        ([key, { policyId }]) => !used.has(key) && policyId.startsWith(INLINE_PREFIX),
      );
      const last = rest.length > limit ? page.at(-1)?.[0] : undefined;
      return { policies: unused.map(([, policy]) => policy), cursor: last ?? null };
    },
  };
}

function positionOf({ tenantId, policyId, version }: PolicyRow): string {
  return keyOf(tenantId, policyId, String(version));
}

/** The policies of all stored tasks. */
function usedBy(rows: Rows): ReadonlySet<string> {
  return new Set([...rows.all()].map(({ task }) => keyOf(task.tenantId, task.policyId)));
}
