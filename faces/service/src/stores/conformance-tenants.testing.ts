/**
 * Conformance of tenants: whatever takes a tenant finds and changes only what belongs to it, even if
 * another tenant has the same ids. A part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import type { Batch } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { DocumentTable } from "../model/document-table.ts";
import { NO_OTHERS } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import type { TaskQuery } from "../model/task-query.ts";
import {
  attemptLog,
  batch,
  claimOf,
  DESTINATION,
  destinationReport,
  dueLanes,
  newTask,
  report,
  settle,
  T0,
} from "./store.testing.ts";

const MINE = "acme";
const OTHER = "zeta";

/** Both tenants have tasks with these ids. */
const DEAD = "0180-dead";
const REDRIVEN = "0180-redriven";
const WAITING = "0180-waiting";
const KEY = "key";
const PAGE = { limit: 250 };

/**
 * Members of `Store` without a tenant; the items of a commit and the parts are checked one by one.
 * `createIn` needs a transaction of a caller, so `postgres-outbox.test.ts` checks it.
 */
type Tenantless =
  | (
      | "exclusive"
      | "overlapItems"
      | "limitsCalls"
      | "partitions"
      | "shards"
      | "commit"
      | "query"
      | "documents"
      | "close"
    )
  | ("clock" | "dueLanes" | "onWakeUp" | "lapsed" | "claimsOf" | "retire" | "latestAt" | "sweep")
  | ("removeUnused" | "unusedPolicies" | "createIn" | "upkeep");

/** Everything that takes a tenant. A new member of the contract needs a line in `CALLS`. */
type Call =
  | Exclude<keyof Store, Tenantless>
  | `query.${keyof TaskQuery}`
  | `documents.${keyof DocumentTable}`
  | `commit.${Exclude<keyof Batch, "now" | "expiresAt" | "nodeId" | "wakeUps">}`
  | "commit.redrives";

interface TenantCall {
  readonly call: (store: Store, tenantId: string) => Promise<unknown>;
  /** What a tenant without data gets. */
  readonly absent: unknown;
}

const policyOf = (tenantId: string, version: number) => ({
  tenantId,
  policyId: "p",
  version,
  document: JSON.stringify({ owner: tenantId }),
  createdAt: T0,
});

const documentOf = (tenantId: string) => ({
  kind: "redrive",
  tenantId,
  id: "d",
  text: `of ${tenantId}`,
});

/** A task whose content names its tenant. */
const taskOf = (tenantId: string, taskId: string, key: string | null = null) =>
  newTask({
    tenantId,
    taskId,
    idempotencyKey: key,
    policyId: "p",
    body: new TextEncoder().encode(`of ${tenantId}`),
  });

const rowOf = (tenantId: string, version: number) => ({
  ...blankDestination(tenantId, DESTINATION),
  version,
  document: JSON.stringify({ owner: tenantId }),
});

const READS = {
  getPolicy: {
    call: (store, tenantId) => store.getPolicy(tenantId, "p"),
    absent: null,
  },
  listPolicies: {
    call: (store, tenantId) => store.listPolicies(tenantId),
    absent: [],
  },
  getDestination: {
    call: (store, tenantId) => store.getDestination(tenantId, DESTINATION),
    absent: null,
  },
  openCircuits: {
    call: (store, tenantId) => store.openCircuits(tenantId, 9),
    absent: [],
  },
  "query.get": {
    call: ({ query }, tenantId) => query.get(tenantId, DEAD),
    absent: null,
  },
  "query.list": {
    call: ({ query }, tenantId) => query.list(tenantId, {}, PAGE),
    absent: { tasks: [], cursor: null },
  },
  "query.listIds": {
    call: ({ query }, tenantId) => query.listIds(tenantId, {}, PAGE),
    absent: { taskIds: [], cursor: null },
  },
  "query.count": {
    call: ({ query }, tenantId) => query.count(tenantId),
    absent: {},
  },
  "query.countTenant": {
    call: ({ query }, tenantId) => query.countTenant(tenantId),
    absent: 0,
  },
  "query.destinations": {
    call: ({ query }, tenantId) => query.destinations(tenantId, PAGE),
    absent: { destinations: [], cursor: null },
  },
  "query.destination": {
    call: ({ query }, tenantId) => query.destination(tenantId, DESTINATION),
    absent: null,
  },
  "query.countDestinations": {
    call: ({ query }, tenantId) => query.countDestinations(tenantId),
    absent: { open: 0, closed: 0, paused: 0 },
  },
  "query.attempts": {
    call: ({ query }, tenantId) => query.attempts(tenantId, DEAD, PAGE),
    absent: { attempts: [], cursor: null },
  },
  "query.export": {
    call: ({ query }, tenantId) => query.export(tenantId, PAGE),
    absent: { tasks: [], cursor: null },
  },
  "query.oldestOpen": {
    call: ({ query }, tenantId) => query.oldestOpen(tenantId),
    absent: null,
  },
  "documents.get": {
    call: ({ documents }, tenantId) => documents.get("redrive", tenantId, "d"),
    absent: null,
  },
  "documents.getMany": {
    call: ({ documents }, tenantId) => documents.getMany("redrive", [{ tenantId, id: "d" }]),
    absent: [null],
  },
  "documents.list": {
    call: ({ documents }, tenantId) => documents.list("redrive", { ...PAGE, tenantId }),
    absent: { documents: [], cursor: null },
  },
} as const satisfies Partial<Record<Call, TenantCall>>;

const CALLS: Record<Call, TenantCall> = {
  ...READS,
  addPolicy: {
    call: (store, tenantId) => store.addPolicy(policyOf(tenantId, 1)),
    absent: true,
  },
  removePolicy: {
    call: (store, tenantId) => store.removePolicy(tenantId, "p", T0),
    absent: false,
  },
  removeInline: {
    call: (store, tenantId) => store.removeInline([{ tenantId, policyId: "p" }]),
    absent: undefined,
  },
  renew: {
    call: async (store, tenantId) => {
      const slots = { limit: 5, wanted: 5, used: 5 };
      const destinations = [destinationReport({ tenantId, calls: 9, slots })];
      const nodeId = `node of ${tenantId}`;
      const { destinations: shares } = await store.renew(report(nodeId, { destinations }));
      return shares;
    },
    absent: [
      { row: null, slots: 5, retrySlots: 0, rate: null, retryRate: null, others: NO_OTHERS },
    ],
  },
  discard: {
    call: (store, tenantId) => store.discard(tenantId, [DEAD, REDRIVEN, WAITING]),
    absent: 0,
  },
  "documents.put": {
    call: ({ documents }, tenantId) => documents.put({ ...documentOf(tenantId), version: 1 }),
    absent: true,
  },
  "documents.remove": {
    call: ({ documents }, tenantId) => documents.remove("redrive", tenantId, "d"),
    absent: false,
  },
  "commit.destinations": {
    call: async (store, tenantId) =>
      (await store.commit(batch({ destinations: [{ row: rowOf(tenantId, 1) }] }))).destinations,
    absent: [null],
  },
  "commit.creates": {
    call: async (store, tenantId) => {
      const task = taskOf(tenantId, `0180-new-${tenantId}`, KEY);
      const creates = [{ task, fingerprint: "other", claimVersion: 0 }];
      const result = await store.commit(batch({ creates }));
      return result.creates.map(({ kind }) => kind);
    },
    absent: ["created"],
  },
  "commit.redrives": {
    call: async (store, tenantId) => {
      const task = { ...taskOf(tenantId, `0180-new-${tenantId}`), redrivenFrom: REDRIVEN };
      const creates = [{ task, fingerprint: null, claimVersion: null }];
      const result = await store.commit(batch({ creates }));
      return result.creates.map(({ kind }) => kind);
    },
    absent: ["created"],
  },
  "commit.settles": {
    call: async (store, tenantId) => {
      const claims = [claimOf("first", { tenantId, version: 1 })];
      const { claims: results } = await store.commit(batch({ claims }));
      const settles = (results[0]?.tasks ?? []).map((task) =>
        settle(task, { status: "EXHAUSTED", reason: "attempts" }),
      );
      return (await store.commit(batch({ settles }))).settles;
    },
    absent: [],
  },
  "commit.cancels": {
    call: async (store, tenantId) =>
      (await store.commit(batch({ cancels: [{ tenantId, taskId: WAITING }] }))).cancels,
    absent: [{ kind: "unknown" }],
  },
  "commit.retryNows": {
    call: async (store, tenantId) =>
      (await store.commit(batch({ retryNows: [{ tenantId, taskId: WAITING }] }))).retryNows,
    absent: [{ kind: "unknown" }],
  },
  "commit.claims": {
    call: async (store, tenantId) => {
      const claims = [claimOf("first", { tenantId, version: 1 })];
      return (await store.commit(batch({ claims }))).claims;
    },
    absent: [{ tasks: [], nextDueAts: [null], row: null }],
  },
  "commit.documents": {
    call: async (store, tenantId) => {
      await store.commit(batch({ documents: [documentOf(tenantId)] }));
    },
    absent: undefined,
  },
};

/** Gives the tenant one of everything. */
async function fill(store: Store, tenantId: string): Promise<void> {
  await store.addPolicy(policyOf(tenantId, 1));
  await store.documents.put({ ...documentOf(tenantId), version: 1 });
  const tasks = [
    taskOf(tenantId, DEAD, KEY),
    taskOf(tenantId, REDRIVEN),
    { ...taskOf(tenantId, WAITING), scheduledAt: T0 + 9000 },
  ];
  const creates = tasks.map((task) => ({
    task,
    fingerprint: task.idempotencyKey,
    claimVersion: null,
  }));
  await store.commit(batch({ creates }));
  const { claims } = await store.commit(batch({ claims: [claimOf("first", { tenantId })] }));
  const attempt = attemptLog({ errorMessage: `of ${tenantId}` });
  const settles = (claims[0]?.tasks ?? []).map((task) =>
    settle(task, { status: "EXHAUSTED", reason: "attempts", attempt }),
  );
  await store.commit(batch({ settles }));
  const again = { ...taskOf(tenantId, "0180-first-redrive"), redrivenFrom: REDRIVEN };
  await store.commit(
    batch({
      destinations: [{ row: rowOf(tenantId, 1) }],
      creates: [{ task: again, fingerprint: null, claimVersion: null }],
    }),
  );
}

/** Everything that the tenant can read. */
async function readAll(store: Store, tenantId: string): Promise<Record<string, unknown>> {
  const results: Record<string, unknown> = {};
  for (const [name, { call }] of Object.entries(READS)) {
    results[name] = await call(store, tenantId);
  }
  const due = await dueLanes(store);
  results["dueLanes"] = due.filter((lane) => lane.tenantId === tenantId);
  return results;
}

export function tenantConformance(store: () => Store): void {
  describe("tenants", () => {
    it.each(Object.entries(CALLS))(
      "%s finds and changes nothing for a tenant without data",
      async (_, { call, absent }) => {
        await fill(store(), MINE);
        const before = await readAll(store(), MINE);
        expect(await call(store(), OTHER)).toEqual(absent);
        expect(await readAll(store(), MINE)).toEqual(before);
      },
    );

    it.each(Object.entries(CALLS))(
      "%s separates tenants that have the same ids",
      async (_, { call }) => {
        await fill(store(), MINE);
        await fill(store(), OTHER);
        const before = await readAll(store(), MINE);
        const result = asOther(await call(store(), OTHER));
        expect(await readAll(store(), MINE)).toEqual(before);
        // With the same call, the first tenant gets the same: nothing was taken from it.
        expect(asOther(await call(store(), MINE))).toEqual(result);
        expect(asOther(await readAll(store(), MINE))).toEqual(
          asOther(await readAll(store(), OTHER)),
        );
      },
    );
  });
}

/** The value as if it belonged to the other tenant, without the store's own names of tasks. */
function asOther(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(MINE, OTHER);
  if (Array.isArray(value)) return value.map(asOther);
  if (value instanceof Uint8Array) return asOther(new TextDecoder().decode(value));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => name !== "ref");
  return Object.fromEntries(entries.map(([name, one]) => [name, asOther(one)]));
}
