/**
 * Commit: carries out a batch. Rows of destinations come first, because claims depend on them. Then
 * all scripts of the partitions are sent at once, with the versions of the rows and the documents.
 */
import type { Batch, ClaimRequest, CommitResult } from "../../../model/batch.ts";
import type { DestinationRow } from "../../../model/destination-row.ts";
import type { LaneDue } from "../../../model/lane-due.ts";
import { allDone } from "../connection/failure.ts";
import type { Link } from "../connection/link.ts";
import { joined, type Keys } from "../rows/keys.ts";
import { pack } from "../rows/message-pack.ts";
import { COMMIT } from "../scripts/commit-script.ts";
import { WRITE_DOCUMENTS } from "../scripts/row-scripts.ts";
import type { DestinationTable, RowVersion } from "../tables/destination-table.ts";
import type { PolicyTable } from "../tables/policy-table.ts";
import { argumentOf, partsOf } from "./batch-parts.ts";
import { BatchResults } from "./batch-results.ts";

export interface CommitParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
  readonly policies: PolicyTable;
  /** Tells all nodes of the hints of a commit. */
  readonly publish: (hints: readonly LaneDue[]) => void;
}

export function committer(parts: CommitParts): (batch: Batch) => Promise<CommitResult> {
  return async (batch) => {
    const result = await parts.link.replicated(() => commit(parts, batch));
    parts.publish(batch.hints);
    return result;
  };
}

async function commit(parts: CommitParts, batch: Batch): Promise<CommitResult> {
  await parts.policies.tellNew(batch.creates.map(({ task }) => task));
  const rows = await writeRows(parts, batch);
  const results = new BatchResults(batch);
  await runParts(parts, batch, results, rows, rows.versions.length > 0);
  await repeatUnknown(parts, batch, results);
  const refusing = await readRefusing(parts, batch, results);
  for (const [index, row] of refusing.creates) {
    const result = results.creates[index];
    if (result?.kind === "created") results.creates[index] = { ...result, row };
  }
  const refused = batch.claims.flatMap((claim, index) => {
    const row = rows.refused.get(joined(claim.tenantId, claim.destination));
    return row === undefined ? [] : [[index, row] as const];
  });
  return {
    destinations: rows.results,
    creates: results.creates,
    settles: results.settles,
    cancels: results.cancels,
    retryNows: results.retryNows,
    claims: results.claims(new Map([...refusing.claims, ...refused])),
  };
}

interface WrittenRows {
  readonly results: readonly (DestinationRow | null)[];
  /** The stored rows of destinations whose write was refused. */
  readonly refused: ReadonlyMap<string, DestinationRow>;
  /** What the partitions must know before the commit is done. */
  readonly versions: readonly RowVersion[];
}

const NO_ROWS: WrittenRows = { results: [], refused: new Map(), versions: [] };

/** A refused write raises the versions, too: the node that wrote the row may have crashed. */
async function writeRows({ destinations }: CommitParts, batch: Batch): Promise<WrittenRows> {
  if (batch.destinations.length === 0) return NO_ROWS;
  const written = batch.destinations.map(({ row }) => row);
  const results = await destinations.write(written);
  const refused = new Map<string, DestinationRow>();
  const versions = written.map((row, index): RowVersion => {
    const stored = results[index] ?? null;
    const id = joined(row.tenantId, row.name);
    // A destination without a row allows any claim.
    if (stored !== null && stored.version > 0) refused.set(id, stored);
    return [id, (stored ?? row).version];
  });
  return { results, refused, versions: versions.filter(([, version]) => version > 0) };
}

async function runParts(
  { link, keys, destinations }: CommitParts,
  batch: Batch,
  results: BatchResults,
  { refused, versions }: WrittenRows,
  mayHaveWritten: boolean,
): Promise<void> {
  const isRefused = ({ tenantId, destination }: ClaimRequest) =>
    refused.has(joined(tenantId, destination));
  const parts = partsOf(withoutRefused(batch, refused), link.isCluster, isRefused);
  const runs = parts.map((part) =>
    link.run(COMMIT, part.partitions.map(keys.base), [pack(argumentOf(batch, part, versions))]),
  );
  const { documents } = batch;
  const items = documents.map(({ kind, tenantId, id, text }) => [kind, joined(tenantId, id), text]);
  const writes =
    items.length === 0 ? [] : [link.run(WRITE_DOCUMENTS, [keys.control], [pack(items)])];
  const all = [...runs, ...destinations.raise(versions), ...writes];
  const replies = await allDone(all, mayHaveWritten);
  destinations.recordRaised(versions);
  for (const [index, part] of parts.entries()) results.add(part, replies[index] ?? null);
}

/** A new task is not claimed under a row whose write was refused. */
function withoutRefused(batch: Batch, refused: WrittenRows["refused"]): Batch {
  if (refused.size === 0) return batch;
  const creates = batch.creates.map((create) => {
    const isRefused = refused.has(joined(create.task.tenantId, create.task.destination));
    // No row has this version.
    return isRefused && create.claimVersion !== null ? { ...create, claimVersion: -1 } : create;
  });
  return { ...batch, creates };
}

/** A partition that does not know a policy is told of it, and then gets the create once more. */
async function repeatUnknown(
  parts: CommitParts,
  batch: Batch,
  results: BatchResults,
): Promise<void> {
  while (results.unknownPolicies.length > 0) {
    const indexes = results.unknownPolicies;
    results.unknownPolicies = [];
    const tasks = indexes
      .map((index) => batch.creates[index]?.task)
      .filter((one) => one !== undefined);
    const known = await parts.policies.tell(tasks, true);
    const repeated = indexes.filter((_, at) => known[at]);
    if (repeated.length === 0) return;
    const creates = repeated
      .map((index) => batch.creates[index])
      .filter((one) => one !== undefined);
    const again = { ...batch, creates, settles: [], cancels: [], retryNows: [], claims: [] };
    const part = { ...again, destinations: [], hints: [], documents: [] };
    const partial = new BatchResults(part);
    await runParts(parts, part, partial, NO_ROWS, true);
    for (const [at, index] of repeated.entries()) {
      const result = partial.creates[at];
      if (result !== undefined) results.creates[index] = result;
    }
    for (const refusal of partial.refusals) {
      results.refusals.push({ ...refusal, index: repeated[refusal.index] ?? 0 });
    }
    // A policy that is known now may be removed at any time, but not forever.
    results.unknownPolicies = partial.unknownPolicies.map((at) => repeated[at] ?? 0);
  }
}

interface Refusing {
  readonly creates: ReadonlyMap<number, DestinationRow>;
  readonly claims: ReadonlyMap<number, DestinationRow>;
}

/** The stored rows that refused claims. A partition that is behind is repaired. */
async function readRefusing(
  { destinations }: CommitParts,
  batch: Batch,
  { refusals }: BatchResults,
): Promise<Refusing> {
  const creates = new Map<number, DestinationRow>();
  const claims = new Map<number, DestinationRow>();
  if (refusals.length === 0) return { creates, claims };
  const highest = new Map<string, number>();
  const idOf = (kind: "creates" | "claims", index: number) => {
    const place = kind === "creates" ? batch.creates[index]?.task : batch.claims[index];
    return joined(place?.tenantId ?? "", place?.destination ?? "");
  };
  for (const { kind, index, version } of refusals) {
    const id = idOf(kind, index);
    highest.set(id, Math.max(highest.get(id) ?? 0, version));
  }
  const rows = await destinations.read([...highest]);
  const byId = new Map([...highest.keys()].map((id, at) => [id, rows[at] as DestinationRow]));
  const versions = [...byId].map(([id, { version }]): RowVersion => [id, version]);
  await allDone(destinations.raise(versions), true);
  for (const { kind, index } of refusals) {
    const row = byId.get(idOf(kind, index));
    if (row !== undefined) (kind === "creates" ? creates : claims).set(index, row);
  }
  return { creates, claims };
}
