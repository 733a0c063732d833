/**
 * Stored layout: each shard stores which shard of how many it is. A start with another list of shards is
 * refused, because it would look for tasks on the wrong server.
 *
 * The first shard also stores that the layout is complete, so that a server whose data was lost is not
 * taken for a new one.
 */
import { RedriveError } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { TenantShards } from "./shard-layout.ts";

const KEY = { kind: "shard-layout", tenantId: "", id: "layout" } as const;

interface StoredLayout {
  /** The same on all shards. */
  readonly layoutId: string;
  /** From 1. */
  readonly shard: number;
  readonly count: number;
  /** The numbers of the shards of each tenant that does not use all. */
  readonly tenants: Readonly<Record<string, readonly number[]>>;
  /** On the first shard: all shards have stored the layout. */
  readonly isComplete: boolean;
}

export interface LayoutParts {
  readonly stores: readonly Store[];
  /** What each is called in messages. */
  readonly names: readonly string[];
  readonly tenants: TenantShards;
  /** For the id of a new layout. */
  readonly newId: () => string;
}

/** Throws `INVALID_ARGUMENT` for a single store that is a shard of several. */
export async function assertUnsharded(store: Store, name: string): Promise<void> {
  const found = await readLayout(store);
  if (found === null) return;
  throw wrongLayout(`${name} is shard ${found.shard} of ${found.count}; list all ${found.count}`);
}

/** Stores the layout on first use. Throws `INVALID_ARGUMENT` if a shard has another one. */
export async function assertLayout(parts: LayoutParts): Promise<void> {
  const { stores, names } = parts;
  const found = await Promise.all(stores.map(readLayout));
  for (const [index, layout] of found.entries()) {
    if (layout !== null) checkPlace(layout, index, stores.length, names[index] as string);
  }
  checkSame(found, names);
  const [first = null] = found;
  const missing = found.indexOf(null);
  if (first?.isComplete && missing > 0) {
    const text = `${names[missing]} has no layout, but was shard ${missing + 1} of ${stores.length}`;
    throw wrongLayout(`${text}; restore its data, or correct its address`);
  }
  if (missing >= 0) {
    for (const [index, layout] of found.entries()) {
      if (layout === null) await assertNew(stores[index] as Store, names[index] as string);
    }
  }
  await storeLayout(parts, found);
}

/** The place of a shard in its layout is the place in the list. */
function checkPlace(found: StoredLayout, index: number, count: number, name: string): void {
  if (found.count !== count) {
    throw wrongLayout(`${name} is one of ${found.count} shards, but ${count} are listed`);
  }
  if (found.shard !== index + 1) {
    const text = `${name} is shard ${found.shard}, but is listed as shard ${index + 1}`;
    throw wrongLayout(`${text}; list the shards in their first order`);
  }
}

function checkSame(found: readonly (StoredLayout | null)[], names: readonly string[]): void {
  const known = found.findIndex((layout) => layout !== null);
  const other = found.findIndex(
    (layout) => layout !== null && layout.layoutId !== found[known]?.layoutId,
  );
  if (other >= 0) throw wrongLayout(`${names[other]} belongs to other shards than ${names[known]}`);
}

/** A store that was used alone has tasks whose ids select another shard. */
async function assertNew(store: Store, name: string): Promise<void> {
  const partitions = Array.from({ length: store.partitions }, (_, partition) => partition);
  const before = Number.MAX_SAFE_INTEGER;
  const waiting = await store.nextDue({ partitions, before, limit: 1 });
  const running = await store.lapsed({ nodeId: "", partitions, limit: 1 });
  if (waiting.lanes.length + running.length === 0) return;
  throw wrongLayout(`${name} has tasks of a store without shards; a new shard must be empty`);
}

async function storeLayout(
  { stores, names, tenants, newId }: LayoutParts,
  found: readonly (StoredLayout | null)[],
): Promise<void> {
  const known = found.find((layout) => layout !== null);
  const wanted = Object.fromEntries(
    [...tenants]
      .map(([tenant, list]) => [tenant, list.map((shard) => shard + 1)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  if (known !== undefined) await checkTenants(stores, known.tenants, wanted);
  let layoutId = known?.layoutId ?? newId();
  // The first shard comes first: of two nodes that start at once, both use its id.
  for (const [index, store] of stores.entries()) {
    const layout = { layoutId, shard: index + 1, count: stores.length, tenants: wanted };
    const stored = await writeLayout(store, { ...layout, isComplete: false });
    checkPlace(stored, index, stores.length, names[index] as string);
    if (index === 0) layoutId = stored.layoutId;
    else if (stored.layoutId !== layoutId) {
      throw wrongLayout(`${names[index]} belongs to other shards than ${names[0]}`);
    }
  }
  const first = { layoutId, shard: 1, count: stores.length, tenants: wanted, isComplete: true };
  await writeLayout(stores[0] as Store, first);
}

/** A tenant may get other shards as long as it has no tasks. */
async function checkTenants(
  stores: readonly Store[],
  before: StoredLayout["tenants"],
  wanted: StoredLayout["tenants"],
): Promise<void> {
  const names = new Set([...Object.keys(before), ...Object.keys(wanted)]);
  for (const tenantId of names) {
    const [old, now] = [before[tenantId], wanted[tenantId]].map((list) => list?.join() ?? "all");
    if (old === now) continue;
    const counts = await Promise.all(stores.map(({ query }) => query.count(tenantId)));
    if (counts.every((count) => Object.keys(count).length === 0)) continue;
    const text = `tenant ${JSON.stringify(tenantId)} has tasks on shards ${old}`;
    throw wrongLayout(`${text}, so it cannot move to ${now}`);
  }
}

/** Returns what is stored then: another node may have written it first. */
async function writeLayout(store: Store, layout: StoredLayout): Promise<StoredLayout> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await store.documents.get(KEY.kind, KEY.tenantId, KEY.id);
    const found = stored === null ? null : (JSON.parse(stored.text) as StoredLayout);
    // An earlier start, or another node, knows the id and that the layout is complete.
    const next = found === null ? layout : { ...layout, ...keptOf(found, layout) };
    const text = JSON.stringify(next);
    if (stored?.text === text) return next;
    if (await store.documents.put({ ...KEY, version: (stored?.version ?? 0) + 1, text }))
      return next;
  }
  throw wrongLayout("the layout changes all the time: do nodes with different settings start?");
}

const MAX_TRIES = 10;

function keptOf(found: StoredLayout, { isComplete }: StoredLayout): Partial<StoredLayout> {
  const { layoutId, shard, count } = found;
  return { layoutId, shard, count, isComplete: found.isComplete || isComplete };
}

async function readLayout(store: Store): Promise<StoredLayout | null> {
  const stored = await store.documents.get(KEY.kind, KEY.tenantId, KEY.id);
  return stored === null ? null : (JSON.parse(stored.text) as StoredLayout);
}

function wrongLayout(text: string): Error {
  return new RedriveError("INVALID_ARGUMENT", `the shards of the store differ: ${text}`);
}
