/**
 * Shard commit: carries out a batch whose tasks are all on one shard. The rows of destinations go to
 * their home shards first. What a shard refuses because it does not know a policy, or the newest row of
 * a destination, is repaired with the copies of the other shards.
 */
import {
  type Batch,
  type CommitResult,
  type Create,
  type CreateResult,
  EMPTY_BATCH,
} from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import { PRESET_VERSION, type Store } from "../../model/store.ts";
import type { NewTask } from "../../model/task.ts";
import type { Author, DestinationCopies } from "./destination-copies.ts";
import type { PolicyCopies } from "./policy-copies.ts";

export interface ShardCommitParts {
  readonly shard: number;
  readonly store: Store;
  readonly rows: DestinationCopies;
  readonly policies: PolicyCopies;
}

/** No row has it, so a claim under it is refused. */
const NO_VERSION = -1;

/**
 * The batch of an engine, with the partitions of the shard. A shard that cannot be reached gets the
 * copies of its rows later, so it does not stop this one.
 */
export async function commitShard(parts: ShardCommitParts, batch: Batch): Promise<CommitResult> {
  if (batch.destinations.length === 0) return commitTasks(parts, batch, new Set());
  const written = await parts.rows.write(batch.destinations, authorOf(batch), true);
  const rest = { ...batch, destinations: [] };
  const refused = refusedKeys(written);
  const result = isEmpty(rest) ? NO_RESULTS : await commitTasks(parts, rest, refused);
  return { ...result, destinations: written };
}

/** Everything but rows. `refused`: the destinations whose row the batch could not write. */
export async function commitTasks(
  parts: ShardCommitParts,
  batch: Batch,
  refused: ReadonlySet<string>,
): Promise<CommitResult> {
  const { store } = parts;
  const result = await store.commit(refused.size === 0 ? batch : withoutClaims(batch, refused));
  const creates = await createAgain(parts, batch, result.creates);
  return repaired(parts, batch, { ...result, creates });
}

export function authorOf({ now, nodeId }: Batch): Author {
  return { now, nodeId };
}

const NO_RESULTS: CommitResult = {
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
};

function isEmpty(batch: Batch): boolean {
  const { creates, settles, cancels, retryNows, claims, hints, documents } = batch;
  const lists = [creates, settles, cancels, retryNows, claims, hints, documents];
  return lists.every(({ length }) => length === 0);
}

/** The destinations whose row was refused. */
export function refusedKeys(written: readonly (DestinationRow | null)[]): ReadonlySet<string> {
  return new Set(written.flatMap((row) => (row === null ? [] : [keyOf(row.tenantId, row.name)])));
}

/** A claim from a destination whose row was refused is refused too. */
function withoutClaims(batch: Batch, refused: ReadonlySet<string>): Batch {
  const isRefused = ({ tenantId, destination }: Pick<NewTask, "tenantId" | "destination">) =>
    refused.has(keyOf(tenantId, destination));
  return {
    ...batch,
    claims: batch.claims.map((claim) =>
      isRefused(claim) ? { ...claim, version: NO_VERSION } : claim,
    ),
    creates: batch.creates.map((create) =>
      create.claimVersion !== null && isRefused(create.task)
        ? { ...create, claimVersion: NO_VERSION }
        : create,
    ),
  };
}

/** Tasks whose policy the shard does not have are stored after it has got a copy. */
async function createAgain(
  { shard, store, policies }: ShardCommitParts,
  { now, nodeId, creates }: Batch,
  results: readonly CreateResult[],
): Promise<readonly CreateResult[]> {
  const isUnknown = ({ task }: Create, index: number) =>
    results[index]?.kind === "unknown-policy" && task.policyVersion !== PRESET_VERSION;
  const unknown = creates.filter(isUnknown);
  if (unknown.length === 0) return results;
  const ids = new Map(
    unknown.map(({ task: { tenantId, policyId } }) => [
      keyOf(tenantId, policyId),
      { tenantId, policyId },
    ]),
  );
  // If no copy can be read, the result stays: the caller reads the policy again, and sees the failure.
  const copies = await Promise.all(
    [...ids.values()].map(({ tenantId, policyId }) =>
      policies.copyTo(shard, tenantId, policyId).catch(() => false),
    ),
  );
  if (!copies.includes(true)) return results;
  const again = await store.commit({ now, nodeId, ...EMPTY_BATCH, creates: unknown });
  const next = again.creates.values();
  return creates.map((create, index) =>
    isUnknown(create, index)
      ? (next.next().value as CreateResult)
      : (results[index] as CreateResult),
  );
}

/** The rows that have refused claims, as they are at home. */
async function repaired(
  { shard, rows }: ShardCommitParts,
  batch: Batch,
  result: CommitResult,
): Promise<CommitResult> {
  const found = [
    ...result.claims.map(({ row }) => row),
    ...result.creates.map((one) => (one.kind === "created" ? one.row : null)),
  ].filter((row) => row !== null);
  if (found.length === 0) return result;
  const byKey = new Map<string, DestinationRow>();
  for (const row of found) byKey.set(keyOf(row.tenantId, row.name), row);
  await Promise.all(
    [...byKey].map(async ([key, row]) =>
      byKey.set(key, await rows.repair(shard, row, authorOf(batch))),
    ),
  );
  const atHome = (row: DestinationRow | null) =>
    row && (byKey.get(keyOf(row.tenantId, row.name)) ?? row);
  return {
    ...result,
    claims: result.claims.map((claim) => ({ ...claim, row: atHome(claim.row) })),
    creates: result.creates.map((one) =>
      one.kind === "created" ? { ...one, row: atHome(one.row) } : one,
    ),
  };
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId}\n${name}`;
}
