/**
 * Split batch: divides a batch among the shards, by the ids of its tasks, and puts the results back in
 * the order of the batch. A claim may name partitions of several shards: they share its limit, so the
 * shards are then asked one after the other.
 */
import {
  type Batch,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  EMPTY_BATCH,
} from "../../model/batch.ts";
import type { ShardLayout } from "./shard-layout.ts";

type CommitOn = (shard: number, batch: Batch) => Promise<CommitResult>;

/** The part of one shard. */
interface Part {
  readonly batch: Batch;
  /** For each list: the index in the whole batch. */
  readonly creates: readonly number[];
  readonly settles: readonly number[];
  readonly cancels: readonly number[];
  readonly retryNows: readonly number[];
}

/** The batch has no rows of destinations and no documents. */
export async function commitParts(
  layout: ShardLayout,
  batch: Batch,
  commitOn: CommitOn,
): Promise<CommitResult> {
  const creates: CommitResult["creates"][number][] = [];
  const settles: CommitResult["settles"][number][] = [];
  const cancels: CommitResult["cancels"][number][] = [];
  const retryNows: CommitResult["retryNows"][number][] = [];
  const claims: ClaimResult[] = batch.claims.map(({ partitions }) => ({
    tasks: [],
    nextDueAts: partitions.map(() => null),
    row: null,
  }));
  const commitPart = async (shard: number) => {
    const part = partOf(layout, shard, batch);
    const own = claimsOf(layout, shard, batch.claims, claims);
    if (isEmpty(part.batch) && own.length === 0) return;
    const requests = own.map(({ request }) => request);
    const result = await commitOn(shard, { ...part.batch, claims: requests });
    for (const [at, index] of part.creates.entries()) creates[index] = itemAt(result.creates, at);
    for (const [at, index] of part.settles.entries()) settles[index] = itemAt(result.settles, at);
    for (const [at, index] of part.cancels.entries()) cancels[index] = itemAt(result.cancels, at);
    for (const [at, index] of part.retryNows.entries())
      retryNows[index] = itemAt(result.retryNows, at);
    for (const [at, claim] of own.entries()) addClaim(claims, claim, itemAt(result.claims, at));
  };
  const shards = Array.from({ length: layout.count }, (_, shard) => shard);
  if (batch.claims.length === 0) await Promise.all(shards.map(commitPart));
  else for (const shard of shards) await commitPart(shard);
  return { destinations: [], creates, settles, cancels, retryNows, claims };
}

function partOf(layout: ShardLayout, shard: number, batch: Batch): Part {
  const pick = <Item>(items: readonly Item[], taskIdOf: (item: Item) => string) =>
    [...items.keys()].filter(
      (index) => layout.shardOfTask(taskIdOf(itemAt(items, index))) === shard,
    );
  const creates = pick(batch.creates, ({ task }) => task.taskId);
  const settles = pick(batch.settles, ({ taskId }) => taskId);
  const cancels = pick(batch.cancels, ({ taskId }) => taskId);
  const retryNows = pick(batch.retryNows, ({ taskId }) => taskId);
  const hints = batch.hints.filter(({ partition }) => layout.shardOfPartition(partition) === shard);
  return {
    creates,
    settles,
    cancels,
    retryNows,
    batch: {
      now: batch.now,
      nodeId: batch.nodeId,
      ...EMPTY_BATCH,
      creates: creates.map((index) => itemAt(batch.creates, index)),
      settles: settles.map((index) => itemAt(batch.settles, index)),
      cancels: cancels.map((index) => itemAt(batch.cancels, index)),
      retryNows: retryNows.map((index) => itemAt(batch.retryNows, index)),
      hints: hints.map((hint) => ({ ...hint, partition: layout.localOf(hint.partition) })),
    },
  };
}

function isEmpty({ creates, settles, cancels, retryNows, hints }: Batch): boolean {
  return [creates, settles, cancels, retryNows, hints].every(({ length }) => length === 0);
}

/** The part of a claim on one shard. */
interface ClaimPart {
  readonly index: number;
  /** The indexes of its partitions in the whole claim. */
  readonly places: readonly number[];
  readonly request: ClaimRequest;
}

/** What the shards before have claimed counts against the limits. */
function claimsOf(
  layout: ShardLayout,
  shard: number,
  claims: readonly ClaimRequest[],
  before: readonly ClaimResult[],
): readonly ClaimPart[] {
  return claims.flatMap((claim, index): ClaimPart[] => {
    const places = [...claim.partitions.keys()].filter(
      (place) => layout.shardOfPartition(itemAt(claim.partitions, place)) === shard,
    );
    if (places.length === 0) return [];
    const taken = before[index]?.tasks.length ?? 0;
    const request = {
      ...claim,
      partitions: places.map((place) => layout.localOf(itemAt(claim.partitions, place))),
      limit: Math.max(0, claim.limit - taken),
      aheadLimit: Math.max(0, claim.aheadLimit - taken),
    };
    return [{ index, places, request }];
  });
}

function addClaim(claims: ClaimResult[], { index, places }: ClaimPart, found: ClaimResult): void {
  const { tasks, nextDueAts, row } = itemAt(claims, index);
  const dueAts = [...nextDueAts];
  for (const [at, place] of places.entries()) dueAts[place] = found.nextDueAts[at] ?? null;
  claims[index] = { tasks: [...tasks, ...found.tasks], nextDueAts: dueAts, row: row ?? found.row };
}

/** The index is one of the list. */
function itemAt<Item>(items: readonly Item[], index: number): Item {
  return items[index] as Item;
}
