/** Batch results: collects the replies of the scripts of one batch into one result. */
import {
  type Batch,
  type CancelResult,
  type ClaimResult,
  type CreateResult,
  freshClaim,
  type RetryNowResult,
  type SettleResult,
  type StartedTask,
} from "../../../model/batch.ts";
import type { DestinationRow } from "../../../model/destination-row.ts";
import { LANES } from "../../../model/task.ts";
import { bytesOf, bytesOrNull, listOf, type Reply } from "../connection/reply.ts";
import { type Unpacked, unpackList } from "../rows/message-pack.ts";
import { newTaskOf, startedOf, stateCells, statusOf } from "../rows/task-codec.ts";
import type { BatchPart } from "./batch-parts.ts";

/** The part of a claim that was made in one partition. */
interface ClaimPart {
  readonly tasks: readonly StartedTask[];
  readonly nextDueAt: number | null;
}

type Cells = readonly Unpacked[];

/** A version that refused a claim, and what was refused. */
export interface Refusal {
  readonly kind: "creates" | "claims";
  readonly index: number;
  readonly version: number;
}

export class BatchResults {
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
        const started = isClaimed === 1 ? freshClaim(create.task, ref, this.#batch.now) : null;
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
