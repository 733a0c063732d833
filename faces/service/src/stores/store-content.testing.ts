/**
 * Store content: everything that can be read from a store, in a form in which two stores can be
 * compared. What the contract leaves open is normalized: the store's own names of tasks, and the
 * order of rows that have no promised order.
 */
import type { Store } from "../model/store.ts";
import { documentsOf, dueLanes } from "./store.testing.ts";

export const TENANTS = ["acme", "zeta"] as const;
export const NODES = ["node-1", "node-2", "node-3"] as const;
export const KINDS = ["redrive", "guards"] as const;

const EVERYTHING = { limit: 250 };

export async function contentOf(store: Store): Promise<unknown> {
  const tenants = await Promise.all(TENANTS.map((tenantId) => tenantContent(store, tenantId)));
  const documents = await Promise.all(KINDS.map((kind) => documentsOf(store, kind)));
  const claims = await Promise.all(NODES.map((nodeId) => store.claimsOf(nodeId, 250)));
  return {
    tenants,
    documents: documents.map(sorted),
    claims: claims.map((tasks) => sorted(normalized(tasks) as readonly unknown[])),
    dueLanes: sorted(await dueLanes(store)),
  };
}

async function tenantContent(store: Store, tenantId: string): Promise<unknown> {
  const { query } = store;
  const { tasks } = await query.export(tenantId, EVERYTHING);
  const attempts = await Promise.all(
    tasks.map(({ taskId }) => query.attempts(tenantId, taskId, EVERYTHING)),
  );
  return {
    tasks: tasks.map(withPlainBody),
    listed: (await query.list(tenantId, {}, EVERYTHING)).tasks.map(({ taskId }) => taskId),
    attempts,
    counts: await query.count(tenantId),
    policies: await store.listPolicies(tenantId),
    destinations: (await query.destinations(tenantId, EVERYTHING)).destinations,
  };
}

/** Bytes as a list: a driver may return a subclass, such as a Buffer. */
function withPlainBody<Task extends { readonly body: Uint8Array | null }>(task: Task) {
  return { ...task, body: task.body && [...task.body] };
}

/** Without the store's own names of tasks, and with bytes as lists. */
export function normalized(value: unknown): unknown {
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value)) return value.map(normalized);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => name !== "ref");
  return Object.fromEntries(entries.map(([name, one]) => [name, normalized(one)]));
}

export function sorted(rows: readonly unknown[]): readonly unknown[] {
  return rows.map((row) => JSON.stringify(row, sortedKeys)).sort();
}

/** Two stores may build the same object in another order of fields. */
function sortedKeys(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
