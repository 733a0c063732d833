/**
 * Rows: the tasks of the memory store, indexed by id and by lane in order of due time, and counted
 * by state. Every change of state goes through `move`, which updates all indexes.
 */

import { createHeap, type Heap } from "../../collections/heap.ts";
import { partitionOf } from "../../model/partition.ts";
import type {
  AttemptLog,
  Lane,
  NewTask,
  RetryTask,
  TaskState,
  TaskStatus,
} from "../../model/task.ts";
import type { TaskCounts } from "../../model/task-query.ts";

/** A task as stored. Mutable; used only in this folder. */
export interface Row {
  readonly ref: number;
  readonly task: NewTask;
  state: TaskState;
  readonly attempts: AttemptLog[];
}

interface Waiting {
  readonly dueAt: number;
  readonly ref: number;
  readonly row: Row;
}

export interface LaneQueue {
  /** From 1, in the order of creation. */
  readonly number: number;
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly partition: number;
  /** May contain stale entries: a task that has moved on is skipped when it is first. */
  readonly waiting: Heap<Waiting>;
}

export function taskOf({ task, state }: Row): RetryTask {
  return { ...task, ...state };
}

/** Joins parts with a character that no tenant and no destination contains. */
export function keyOf(...parts: readonly string[]): string {
  return parts.join("\n");
}

function textOf({ tenantId, destination, lane, partition }: QueueKey): string {
  return keyOf(tenantId, destination, lane, String(partition));
}

const isEarlier = (a: Waiting, b: Waiting) =>
  a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.ref < b.ref);

interface Tally {
  readonly tenantId: string;
  readonly destination: string;
  /** Without zeros. */
  readonly counts: Partial<Record<TaskStatus, number>>;
}

/** A lane of one partition. */
type QueueKey = Pick<LaneQueue, "tenantId" | "destination" | "lane" | "partition">;

export class Rows {
  readonly #partitions: number;
  readonly #byId = new Map<string, Row>();
  readonly #byRef = new Map<number, Row>();
  readonly #claimed = new Set<Row>();
  readonly #queues = new Map<string, LaneQueue>();
  readonly #counts = new Map<string, Tally>();
  #lastRef = 0;
  #lastQueue = 0;

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  add(task: NewTask, state: TaskState): Row {
    const row: Row = { ref: ++this.#lastRef, task, state, attempts: [] };
    this.#byId.set(keyOf(task.tenantId, task.taskId), row);
    this.#byRef.set(row.ref, row);
    this.#enter(row);
    return row;
  }

  find(tenantId: string, taskId: string): Row | undefined {
    return this.#byId.get(keyOf(tenantId, taskId));
  }

  at(ref: number): Row | undefined {
    return this.#byRef.get(ref);
  }

  /** Changes the state of a row and updates every index. */
  move(row: Row, change: Partial<TaskState>): void {
    this.#leave(row);
    row.state = { ...row.state, ...change };
    this.#enter(row);
  }

  remove(row: Row): void {
    this.#leave(row);
    this.#byId.delete(keyOf(row.task.tenantId, row.task.taskId));
    this.#byRef.delete(row.ref);
  }

  /** The earliest waiting task of a lane in one partition. */
  head(key: QueueKey): Row | undefined {
    const waiting = this.#queues.get(textOf(key))?.waiting;
    if (waiting === undefined) return undefined;
    for (let top = waiting.peek(); top !== undefined; top = waiting.peek()) {
      if (this.#isCurrent(top, key.lane)) return top.row;
      waiting.pop();
    }
    return undefined;
  }

  /** When the earliest waiting task of a destination is due; null: none waits. */
  nextDueAt(tenantId: string, destination: string): number | null {
    const own = [...this.#queues.values()].filter(
      (queue) => queue.tenantId === tenantId && queue.destination === destination,
    );
    const dueAts = own.flatMap((queue) => this.head(queue)?.state.nextAttemptAt ?? []);
    return dueAts.length === 0 ? null : Math.min(...dueAts);
  }

  partitionOf(taskId: string): number {
    return partitionOf(taskId, this.#partitions);
  }

  /** The queues that have waiting tasks, in the order of creation. Empty ones are removed. */
  lanes(): readonly LaneQueue[] {
    const queues = [...this.#queues.entries()];
    for (const [key, queue] of queues) {
      if (this.head(queue) === undefined) this.#queues.delete(key);
    }
    return [...this.#queues.values()];
  }

  all(): Iterable<Row> {
    return this.#byRef.values();
  }

  claimed(): Iterable<Row> {
    return this.#claimed;
  }

  /** The counts of each destination that has tasks. */
  counts(tenantId: string): ReadonlyMap<string, TaskCounts> {
    const own = [...this.#counts.values()].filter((entry) => entry.tenantId === tenantId);
    return new Map(own.map(({ destination, counts }) => [destination, { ...counts }]));
  }

  /** The counts of one destination; undefined if it has no tasks. */
  countsOf(tenantId: string, destination: string): TaskCounts | undefined {
    const tally = this.#counts.get(keyOf(tenantId, destination));
    return tally && { ...tally.counts };
  }

  #enter(row: Row): void {
    const { task, state, ref } = row;
    this.#tally(task, state.status, 1);
    if (state.status === "IN_FLIGHT") this.#claimed.add(row);
    if (state.status !== "PENDING") return;
    this.#queueOf(task, state.lane).waiting.push({ dueAt: state.nextAttemptAt, ref, row });
  }

  #leave(row: Row): void {
    this.#tally(row.task, row.state.status, -1);
    if (row.state.status === "IN_FLIGHT") this.#claimed.delete(row);
  }

  #queueOf({ tenantId, destination, taskId }: NewTask, lane: Lane): LaneQueue {
    const key = { tenantId, destination, lane, partition: this.partitionOf(taskId) };
    let queue = this.#queues.get(textOf(key));
    if (queue === undefined) {
      queue = { ...key, number: ++this.#lastQueue, waiting: createHeap(isEarlier) };
      this.#queues.set(textOf(key), queue);
    }
    return queue;
  }

  #tally({ tenantId, destination }: NewTask, status: TaskStatus, step: number): void {
    const key = keyOf(tenantId, destination);
    const counts: Tally["counts"] = this.#counts.get(key)?.counts ?? {};
    counts[status] = (counts[status] ?? 0) + step;
    if (counts[status] === 0) delete counts[status];
    if (Object.keys(counts).length === 0) this.#counts.delete(key);
    else this.#counts.set(key, { tenantId, destination, counts });
  }

  #isCurrent({ dueAt, row }: Waiting, lane: Lane): boolean {
    const { state } = row;
    const waits = state.status === "PENDING" && this.#byRef.has(row.ref);
    return waits && state.lane === lane && state.nextAttemptAt === dueAt;
  }
}
