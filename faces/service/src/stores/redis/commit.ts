/**
 * Commit: carries out a batch. Rows of destinations come first, because claims depend on them. Then
 * all scripts of the partitions are sent at once, with the versions of the rows and the documents.
 */
import {
  type Batch,
  type CancelRequest,
  type CancelResult,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type Create,
  type CreateResult,
  freshClaim,
  type OnEnd,
  type RetryNowResult,
  type Settle,
  type SettleResult,
  type StartedTask,
  type TaskRef,
} from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import { partitionOf } from "../../model/partition.ts";
import { LANES, type NewTask } from "../../model/task.ts";
import { allDone, bytesOf, bytesOrNull, type Link, listOf, type Reply } from "./connection/link.ts";
import type { DestinationTable, RowVersion } from "./destination-table.ts";
import { type Packable, pack, type Unpacked, unpackList } from "./message-pack.ts";
import type { PolicyTable } from "./policy-table.ts";
import {
  joined,
  type Keys,
  newTaskOf,
  PARTITIONS,
  packAttempt,
  packHead,
  startedOf,
  stateCells,
  statusNumber,
  statusOf,
} from "./rows.ts";
import { COMMIT } from "./scripts/commit-script.ts";
import { WRITE_DOCUMENTS } from "./scripts/row-scripts.ts";
import type { WakeUps } from "./wake-ups.ts";

interface CommitParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
  readonly policies: PolicyTable;
  readonly wakeUps: WakeUps;
}

export function committer(parts: CommitParts): (batch: Batch) => Promise<CommitResult> {
  return async (batch) => {
    const result = await parts.link.replicated(() => commit(parts, batch));
    parts.wakeUps.sendLanes(batch.wakeUps);
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
  const found = await destinations.write(written);
  const refused = new Map<string, DestinationRow>();
  const versions: RowVersion[] = [];
  for (const [index, row] of written.entries()) {
    const other = found[index] ?? null;
    // A destination without a row allows any claim.
    if (other?.isStored === false) continue;
    const id = joined(row.tenantId, row.name);
    if (other !== null) refused.set(id, other.row);
    versions.push([id, (other?.row ?? row).version]);
  }
  return { results: found.map((other) => other?.row ?? null), refused, versions };
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
    const part = { ...again, destinations: [], documents: [] };
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

/**
 * The stored rows that refused claims. A partition that is behind is repaired, as is one that still knows
 * the version of a row that was removed.
 */
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
  const known: readonly RowVersion[] = [...highest];
  const found = await destinations.read(known);
  const byId = new Map(known.map(([id], at) => [id, found[at]?.row]));
  const stored = known.filter((_, at) => found[at]?.isStored === true);
  const versions = stored.map(([id]): RowVersion => [id, byId.get(id)?.version ?? 0]);
  await allDone(destinations.raise(versions), true);
  await destinations.drop(
    known.filter((_, at) => found[at]?.isStored === false),
    true,
  );
  for (const { kind, index } of refusals) {
    const row = byId.get(idOf(kind, index));
    if (row !== undefined) (kind === "creates" ? creates : claims).set(index, row);
  }
  return { creates, claims };
}

// Batch items: the items of a batch as lists for `COMMIT`. Each begins with the place of its partition.

type Item = readonly Packable[];

/** The limits of the part of a claim that is made in one partition. */
type ClaimLimits = Pick<ClaimRequest, "limit" | "aheadLimit">;

/** The fields of `insert`, in `scripts/task-script.ts`. */
function newTaskItem(place: number, task: NewTask): Packable[] {
  return [
    place,
    task.tenantId,
    task.taskId,
    task.destination,
    task.scheduledAt,
    packHead(task),
    task.body,
    task.idempotencyKey,
    task.policyId,
  ];
}

function createItem(place: number, { task, fingerprint, claimVersion }: Create): Item {
  const { policyVersion, redrivenFrom } = task;
  return [...newTaskItem(place, task), fingerprint, claimVersion, policyVersion, redrivenFrom];
}

function settleItem(place: number, settle: Settle): Item {
  const { attempt } = settle;
  return [
    place,
    settle.tenantId,
    settle.taskId,
    Number(settle.ref),
    settle.claimEpoch,
    settle.claimedBy,
    statusNumber(settle.status),
    settle.reason,
    LANES.indexOf(settle.lane),
    settle.nextAttemptAt,
    settle.lastDelayMs,
    settle.abandonedCount,
    attempt && packAttempt(attempt),
    attempt?.responseStatus ?? null,
    attempt ? attempt.errorMessage : (settle.lastError ?? null),
    followItems(place, settle.onEnd),
  ];
}

function followItems(place: number, onEnd: OnEnd = {}): Item {
  const ends = [onEnd.SUCCEEDED, onEnd.EXHAUSTED, onEnd.CANCELLED];
  return ends.map((tasks) => newTaskItems(place, tasks));
}

function cancelItem(place: number, { tenantId, taskId, onEnd }: CancelRequest): Item {
  return [place, tenantId, taskId, newTaskItems(place, onEnd?.CANCELLED)];
}

function newTaskItems(place: number, tasks: readonly NewTask[] = []): Item {
  return tasks.map((task) => newTaskItem(place, task));
}

function refItem(place: number, { tenantId, taskId }: TaskRef): Item {
  return [place, tenantId, taskId];
}

/** `number`: the index of the claim in the batch. `version` null: nothing is claimed. */
function claimItem(
  place: number,
  number: number,
  request: ClaimRequest,
  { limit, aheadLimit }: ClaimLimits,
  version: number | null,
): Item {
  const { tenantId, destination, lane, aheadMs } = request;
  const laneNumber = LANES.indexOf(lane);
  return [place, number, tenantId, destination, laneNumber, limit, aheadMs, aheadLimit, version];
}

// Batch parts: divides a batch into the scripts that carry it out. On one server, a single script does
// all partitions. In a cluster, each partition has its own.

const KINDS = ["creates", "settles", "cancels", "retryNows", "claims"] as const;
type ItemKind = (typeof KINDS)[number];

interface BatchPart {
  /** The partitions, in the order of the places that items name, from 1. */
  readonly partitions: number[];
  readonly items: Readonly<Record<ItemKind, Item[]>>;
  /** The index in the batch of each item. */
  readonly indexes: Readonly<Record<ItemKind, number[]>>;
  /** For each item of `claims`: the index of its partition in the request. */
  readonly claimPlaces: number[];
}

/** `refused` says whether the batch's own write of a destination's row was refused. */
function partsOf(
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
function argumentOf(
  { now, nodeId, expiresAt }: Batch,
  { items }: BatchPart,
  versions: readonly Item[],
): Packable {
  return [now, nodeId, versions, ...KINDS.map((kind) => items[kind]), expiresAt];
}

// Batch results: collects the replies of the scripts of one batch into one result.

/** The part of a claim that was made in one partition. */
interface ClaimPart {
  readonly tasks: readonly StartedTask[];
  readonly nextDueAt: number | null;
}

type Cells = readonly Unpacked[];

/** A version that refused a claim, and what was refused. */
interface Refusal {
  readonly kind: "creates" | "claims";
  readonly index: number;
  readonly version: number;
}

class BatchResults {
  readonly creates: CreateResult[] = [];
  readonly settles: SettleResult[] = [];
  readonly cancels: CancelResult[] = [];
  readonly retryNows: RetryNowResult[] = [];
  readonly refusals: Refusal[] = [];
  /** The indexes of creates whose policy version the partition does not know. */
  unknownPolicies: number[] = [];
  readonly #claims = new Map<number, ClaimPart[]>();
  readonly #batch: Batch;

  constructor(batch: Batch) {
    this.#batch = batch;
  }

  /** Adds the reply of `COMMIT`. */
  add({ indexes, claimPlaces }: BatchPart, reply: Reply): void {
    const [packed, ...blobs] = listOf(reply);
    const lists = unpackList(bytesOf(packed)) as readonly (readonly Unpacked[])[];
    const [creates = [], settles = [], cancels = [], retryNows = [], claims = []] = lists;
    for (const [at, index] of indexes.creates.entries()) {
      this.#addCreate(index, creates[at] as Cells);
    }
    for (const [at, index] of indexes.settles.entries()) {
      this.settles[index] = settles[at] === -1 ? "fenced" : endOf(settles[at]);
    }
    for (const [at, index] of indexes.cancels.entries()) {
      this.cancels[index] = cancelResult(cancels[at] as Cells);
    }
    for (const [at, index] of indexes.retryNows.entries()) {
      this.retryNows[index] = retryNowResult(retryNows[at] as Cells);
    }
    let used = 0;
    for (const [at, index] of indexes.claims.entries()) {
      const [count, nextDueAt, version] = claims[at] as [number, number | null, number];
      const tasks = startedTasks(blobs.slice(used, used + 3 * count));
      used += 3 * count;
      const parts = this.#claims.get(index) ?? [];
      this.#claims.set(index, parts);
      parts[claimPlaces[at] ?? 0] = { tasks, nextDueAt };
      if (version > 0) this.refusals.push({ kind: "claims", index, version });
    }
  }

  #addCreate(index: number, [kind, value, isClaimed, version = 0]: Cells): void {
    const create = this.#batch.creates[index];
    if (create === undefined) throw new Error("the reply has too many creates");
    const taskId = String(value);
    const kinds: Readonly<Record<number, () => CreateResult>> = {
      0: () => {
        const ref = value as number;
        const { nodeId, now } = this.#batch;
        const started = isClaimed === 1 ? freshClaim(create.task, ref, nodeId, now) : null;
        return { kind: "created", started, row: null };
      },
      1: () => ({ kind: "replayed", taskId }),
      2: () => ({ kind: "conflict", taskId }),
      3: () => ({ kind: "redriven", taskId }),
      4: () => ({ kind: "unknown-policy" }),
    };
    this.creates[index] = kinds[kind as number]?.() ?? { kind: "unknown-policy" };
    if (kind === 4) this.unknownPolicies.push(index);
    if ((version as number) > 0) {
      this.refusals.push({ kind: "creates", index, version: version as number });
    }
  }

  /** The claims. `rows`: the stored row, at the index of each claim that it refused. */
  claims(rows: ReadonlyMap<number, DestinationRow>): readonly ClaimResult[] {
    return this.#batch.claims.map((_, index) => {
      const parts = this.#claims.get(index) ?? [];
      const tasks = parts.flatMap((part) => part.tasks);
      const nextDueAts = parts.map(({ nextDueAt }) => nextDueAt);
      // Some partitions may already know a newer row that is being written.
      const row = tasks.length > 0 ? null : (rows.get(index) ?? null);
      return { tasks, nextDueAts, row };
    });
  }
}

function startedTasks(blobs: readonly Reply[]): readonly StartedTask[] {
  return blobs.flatMap((state, at) => {
    if (at % 3 > 0) return [];
    const task = newTaskOf(bytesOf(blobs[at + 1]), bytesOrNull(blobs[at + 2]));
    return [startedOf(task, stateCells(bytesOf(state)))];
  });
}

function endOf(status: Unpacked | undefined): SettleResult {
  return statusOf(status) as SettleResult;
}

function cancelResult([kind, value]: Cells): CancelResult {
  if (kind === 1) return { kind: "cancelled" };
  if (kind === 2) return { kind: "requested", cancelRequestedAt: value as number };
  return kind === 3 ? { kind: "ended", status: statusOf(value) } : { kind: "unknown" };
}

function retryNowResult([kind, value, lane]: Cells): RetryNowResult {
  if (kind === 2) return { kind: "not-pending", status: statusOf(value) };
  if (kind !== 1) return { kind: "unknown" };
  const name = LANES[lane as number] ?? "first";
  return { kind: "rescheduled", destination: value as string, lane: name };
}
