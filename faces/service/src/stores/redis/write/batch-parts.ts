/**
 * Batch parts: divides a batch into the scripts that carry it out. On one server, a single script does
 * all partitions. In a cluster, each partition has its own.
 */
import type { Batch, ClaimRequest } from "../../../model/batch.ts";
import { partitionOf } from "../../../model/partition.ts";
import { PARTITIONS } from "../rows/keys.ts";
import type { Packable } from "../rows/message-pack.ts";
import {
  type ClaimLimits,
  cancelItem,
  claimItem,
  createItem,
  hintItem,
  type Item,
  refItem,
  settleItem,
} from "./batch-items.ts";

const KINDS = ["creates", "settles", "cancels", "retryNows", "claims", "hints"] as const;
export type ItemKind = (typeof KINDS)[number];

export interface BatchPart {
  /** The partitions, in the order of the places that items name, from 1. */
  readonly partitions: number[];
  readonly items: Readonly<Record<ItemKind, Item[]>>;
  /** The index in the batch of each item. */
  readonly indexes: Readonly<Record<ItemKind, number[]>>;
  /** For each item of `claims`: the index of its partition in the request. */
  readonly claimPlaces: number[];
}

/** `refused` says whether the batch's own write of a destination's row was refused. */
export function partsOf(
  batch: Batch,
  isCluster: boolean,
  refused: (claim: ClaimRequest) => boolean,
): readonly BatchPart[] {
  const parts = new Map<number, BatchPart>();
  const add = (partition: number, kind: ItemKind, index: number, make: (place: number) => Item) => {
    const id = isCluster ? partition : 0;
    const part = parts.get(id) ?? emptyPart();
    parts.set(id, part);
    part.items[kind].push(make(placeOf(part, partition)));
    part.indexes[kind].push(index);
    return part;
  };
  const partition = (taskId: string) => partitionOf(taskId, PARTITIONS);
  for (const [index, one] of batch.creates.entries()) {
    add(partition(one.task.taskId), "creates", index, (place) => createItem(place, one));
  }
  for (const [index, one] of batch.settles.entries()) {
    add(partition(one.taskId), "settles", index, (place) => settleItem(place, one));
  }
  for (const [index, one] of batch.cancels.entries()) {
    add(partition(one.taskId), "cancels", index, (place) => cancelItem(place, one));
  }
  for (const [index, one] of batch.retryNows.entries()) {
    add(partition(one.taskId), "retryNows", index, (place) => refItem(place, one));
  }
  for (const [index, one] of batch.claims.entries()) {
    const version = refused(one) ? null : one.version;
    for (const [at, ofClaim] of one.partitions.entries()) {
      const limits = isCluster ? dividedLimits(one, at) : one;
      const part = add(ofClaim, "claims", index, (place) =>
        claimItem(place, index, one, limits, version),
      );
      part.claimPlaces.push(at);
    }
  }
  for (const [index, one] of batch.hints.entries()) {
    add(one.partition, "hints", index, (place) => hintItem(place, one));
  }
  return [...parts.values()];
}

function emptyPart(): BatchPart {
  const lists = <Value>() =>
    Object.fromEntries(KINDS.map((kind) => [kind, [] as Value[]])) as Record<ItemKind, Value[]>;
  return { partitions: [], items: lists<Item>(), indexes: lists<number>(), claimPlaces: [] };
}

function placeOf({ partitions }: BatchPart, partition: number): number {
  const at = partitions.indexOf(partition);
  return at < 0 ? partitions.push(partition) : at + 1;
}

/** The servers of a cluster cannot count together, so each partition gets its part of the limit. */
function dividedLimits({ partitions, limit, aheadLimit }: ClaimRequest, at: number): ClaimLimits {
  const share = (total: number) =>
    Math.floor(total / partitions.length) + (at < total % partitions.length ? 1 : 0);
  return { limit: share(limit), aheadLimit: share(aheadLimit) };
}

/** The argument of `COMMIT`. `versions` are raised before everything else. */
export function argumentOf(
  { now, nodeId }: Batch,
  { items }: BatchPart,
  versions: readonly Item[],
): Packable {
  return [now, nodeId, versions, ...KINDS.map((kind) => items[kind])];
}
