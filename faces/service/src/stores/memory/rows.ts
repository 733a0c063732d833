/**
 * Rows: the tasks of the memory store, indexed by id and by lane in order of due time, and counted
 * by state. Every change of state goes through `move`, which updates all indexes.
 */
import { createHeap, type Heap } from "../../collections/heap.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import { partitionOf } from "../../model/partition.ts";
import type { PolicyRow } from "../../model/store.ts";
import {
  type AttemptLog,
  isEnded,
  type Lane,
  type NewTask,
  type RetryTask,
  type TaskState,
  type TaskStatus,
} from "../../model/task.ts";
import type { TaskCounts } from "../../model/task-query.ts";

/** A task as stored. Mutable; used only in this folder. */
export interface Row {
  readonly ref: number;
  readonly place: Place;
  readonly partition: number;
  readonly task: NewTask;
  state: TaskState;
  readonly attempts: AttemptLog[];
  /** The two as one, since somebody asked for it; undefined: not since the last change. */
  whole: RetryTask | undefined;
}

interface Waiting {
  readonly dueAt: number;
  readonly ref: number;
  readonly row: Row;
}

/** A destination that has tasks. Each row knows its own, so that a change of state joins no texts. */
interface Place {
  readonly tenantId: string;
  readonly destination: string;
  readonly counts: Record<TaskStatus, number>;
  /** By partition. */
  readonly queues: Readonly<Record<Lane, (LaneQueue | undefined)[]>>;
}

interface LaneQueue {
  /** From 1, in the order of creation. */
  readonly number: number;
  readonly place: Place;
  readonly lane: Lane;
  readonly partition: number;
  /** May contain stale entries: a task that has moved on is skipped when it is first. */
  readonly waiting: Heap<Waiting>;
}

export function taskOf(row: Row): RetryTask {
  row.whole ??= wholeTask(row.task, row.state);
  return row.whole;
}

/** Joins parts with a character that no tenant and no destination contains. */
export function keyOf(first: string, second: string, third?: string): string {
  return third === undefined ? `${first}\n${second}` : `${first}\n${second}\n${third}`;
}

const isEarlier = (a: Waiting, b: Waiting) =>
  a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.ref < b.ref);

function emptyPlace(tenantId: string, destination: string): Place {
  return {
    tenantId,
    destination,
    counts: { PENDING: 0, IN_FLIGHT: 0, SUCCEEDED: 0, EXHAUSTED: 0, CANCELLED: 0 },
    queues: { first: [], retry: [], suspect: [] },
  };
}

function isEmpty({ counts }: Place): boolean {
  return Object.values(counts).every((count) => count === 0);
}

/** Without zeros. */
function countsOf({ counts }: Place): TaskCounts {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

export class Rows {
  readonly #partitions: number;
  /** By tenant and task. */
  readonly #byId = new PairMap<Row>();
  readonly #byRef = new Map<number, Row>();
  readonly #claimed = new Set<Row>();
  /** By tenant and destination. */
  readonly #places = new PairMap<Place>();
  /** In the order of creation. */
  readonly #queues = new Set<LaneQueue>();
  #lastRef = 0;
  #lastQueue = 0;
  /** No task ended earlier. Not raised when tasks are removed. */
  #firstEndAt = Number.POSITIVE_INFINITY;

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  add(task: NewTask, state: TaskState): Row {
    const place = this.#placeFor(task.tenantId, task.destination);
    const partition = this.partitionOf(task.taskId);
    const ref = ++this.#lastRef;
    const row: Row = { ref, place, partition, task, state, attempts: [], whole: undefined };
    this.#byId.set(task.tenantId, task.taskId, row);
    this.#byRef.set(row.ref, row);
    this.#enter(row);
    return row;
  }

  find(tenantId: string, taskId: string): Row | undefined {
    return this.#byId.get(tenantId, taskId);
  }

  at(ref: number): Row | undefined {
    return this.#byRef.get(ref);
  }

  /** Gives a row a new state and updates every index. */
  move(row: Row, state: TaskState): void {
    this.#leave(row);
    row.state = state;
    row.whole = undefined;
    this.#enter(row);
  }

  remove(row: Row): void {
    this.#leave(row);
    this.#byId.delete(row.task.tenantId, row.task.taskId);
    this.#byRef.delete(row.ref);
    const { tenantId, destination } = row.place;
    if (isEmpty(row.place)) this.#places.delete(tenantId, destination);
  }

  /** The destination, if it has tasks. */
  place(tenantId: string, destination: string): Place | undefined {
    return this.#places.get(tenantId, destination);
  }

  /** The earliest waiting task of a lane in one partition. */
  head(queue: LaneQueue | undefined): Row | undefined {
    if (queue === undefined) return undefined;
    const { waiting, lane } = queue;
    for (let top = waiting.peek(); top !== undefined; top = waiting.peek()) {
      if (this.#isCurrent(top, lane)) return top.row;
      waiting.pop();
    }
    return undefined;
  }

  /** When the earliest waiting task of a destination is due; null: none waits. */
  nextDueAt(tenantId: string, destination: string): number | null {
    const queues = Object.values(this.place(tenantId, destination)?.queues ?? {}).flat();
    const dueAts = queues.flatMap((queue) => this.head(queue)?.state.nextAttemptAt ?? []);
    return dueAts.length === 0 ? null : Math.min(...dueAts);
  }

  partitionOf(taskId: string): number {
    return partitionOf(taskId, this.#partitions);
  }

  /** The queues that have waiting tasks, in the order of creation. Empty ones are removed. */
  lanes(): readonly LaneQueue[] {
    for (const queue of this.#queues) {
      if (this.head(queue) !== undefined) continue;
      this.#queues.delete(queue);
      queue.place.queues[queue.lane][queue.partition] = undefined;
    }
    return [...this.#queues];
  }

  all(): Iterable<Row> {
    return this.#byRef.values();
  }

  /** False: no task ended before `at`. True: one may have. */
  mayHaveEndedBefore(at: number): boolean {
    return this.#firstEndAt < at;
  }

  claimed(): Iterable<Row> {
    return this.#claimed;
  }

  /** The counts of each destination that has tasks. */
  counts(tenantId: string): ReadonlyMap<string, TaskCounts> {
    const own = this.#places.ofFirst(tenantId);
    return new Map(own.map((place) => [place.destination, countsOf(place)]));
  }

  /** The counts of one destination; undefined if it has no tasks. */
  countsOf(tenantId: string, destination: string): TaskCounts | undefined {
    const place = this.place(tenantId, destination);
    return place && countsOf(place);
  }

  #enter(row: Row): void {
    const { state, ref, place } = row;
    place.counts[state.status]++;
    if (isEnded(state.status)) this.#firstEndAt = Math.min(this.#firstEndAt, state.finishedAt ?? 0);
    if (state.status === "IN_FLIGHT") this.#claimed.add(row);
    if (state.status !== "PENDING") return;
    this.#queueFor(row).waiting.push({ dueAt: state.nextAttemptAt, ref, row });
  }

  #leave(row: Row): void {
    row.place.counts[row.state.status]--;
    if (row.state.status === "IN_FLIGHT") this.#claimed.delete(row);
  }

  #placeFor(tenantId: string, destination: string): Place {
    const known = this.#places.get(tenantId, destination);
    if (known !== undefined) return known;
    const place = emptyPlace(tenantId, destination);
    this.#places.set(tenantId, destination, place);
    return place;
  }

  #queueFor({ place, partition, state: { lane } }: Row): LaneQueue {
    const known = place.queues[lane][partition];
    if (known !== undefined) return known;
    const waiting = createHeap<Waiting>(isEarlier);
    const queue = { number: ++this.#lastQueue, place, lane, partition, waiting };
    place.queues[lane][partition] = queue;
    this.#queues.add(queue);
    return queue;
  }

  #isCurrent({ dueAt, row }: Waiting, lane: Lane): boolean {
    const { state } = row;
    const waits = state.status === "PENDING" && this.#byRef.has(row.ref);
    return waits && state.lane === lane && state.nextAttemptAt === dueAt;
  }
}

// Pair map: a map whose keys are pairs of texts, such as a tenant and a task. It is a map of maps, because
// to join the two texts costs more than to look up both.

export class PairMap<Value> {
  readonly #byFirst = new Map<string, Map<string, Value>>();

  get(first: string, second: string): Value | undefined {
    return this.#byFirst.get(first)?.get(second);
  }

  set(first: string, second: string, value: Value): void {
    const values = this.#byFirst.get(first);
    if (values === undefined) this.#byFirst.set(first, new Map([[second, value]]));
    else values.set(second, value);
  }

  delete(first: string, second: string): void {
    const values = this.#byFirst.get(first);
    values?.delete(second);
    if (values?.size === 0) this.#byFirst.delete(first);
  }

  /** The values whose keys begin with `first`, in the order in which they were added. */
  ofFirst(first: string): readonly Value[] {
    return [...(this.#byFirst.get(first)?.values() ?? [])];
  }

  *values(): Iterable<Value> {
    for (const values of this.#byFirst.values()) yield* values.values();
  }
}

// Whole task: joins what a client sent with the state of the task. Field by field: with a spread, every
// task would get its own hidden class.

function wholeTask(task: NewTask, state: TaskState): RetryTask {
  return {
    taskId: task.taskId,
    tenantId: task.tenantId,
    idempotencyKey: task.idempotencyKey,
    destination: task.destination,
    targetUrl: task.targetUrl,
    method: task.method,
    headers: task.headers,
    body: task.body,
    bodyRef: task.bodyRef,
    policyId: task.policyId,
    policyVersion: task.policyVersion,
    idempotent: task.idempotent,
    deadlineAt: task.deadlineAt,
    createdAt: task.createdAt,
    scheduledAt: task.scheduledAt,
    labels: task.labels,
    callbackUrl: task.callbackUrl,
    redrivenFrom: task.redrivenFrom,
    status: state.status,
    reason: state.reason,
    lane: state.lane,
    attemptNumber: state.attemptNumber,
    nextAttemptAt: state.nextAttemptAt,
    claimEpoch: state.claimEpoch,
    claimedBy: state.claimedBy,
    claimedAt: state.claimedAt,
    lastDelayMs: state.lastDelayMs,
    abandonedCount: state.abandonedCount,
    cancelRequestedAt: state.cancelRequestedAt,
    lastStatus: state.lastStatus,
    lastError: state.lastError,
    redrivenTo: state.redrivenTo,
    finishedAt: state.finishedAt,
  };
}

// Task state: the state of a new task in the memory store, and copies of a state that are changed.

export function freshState(task: NewTask): TaskState {
  return {
    status: "PENDING",
    reason: null,
    lane: "first",
    attemptNumber: 0,
    nextAttemptAt: task.scheduledAt,
    claimEpoch: 0,
    claimedBy: null,
    claimedAt: null,
    lastDelayMs: 0,
    abandonedCount: 0,
    cancelRequestedAt: null,
    lastStatus: null,
    lastError: null,
    redrivenTo: null,
    finishedAt: null,
  };
}

type ChangeableState = { -readonly [Field in keyof TaskState]: TaskState[Field] };

/** Field by field: V8 copies an object with this many fields ten times slower by a spread. */
export function copyOf(state: TaskState): ChangeableState {
  return {
    status: state.status,
    reason: state.reason,
    lane: state.lane,
    attemptNumber: state.attemptNumber,
    nextAttemptAt: state.nextAttemptAt,
    claimEpoch: state.claimEpoch,
    claimedBy: state.claimedBy,
    claimedAt: state.claimedAt,
    lastDelayMs: state.lastDelayMs,
    abandonedCount: state.abandonedCount,
    cancelRequestedAt: state.cancelRequestedAt,
    lastStatus: state.lastStatus,
    lastError: state.lastError,
    redrivenTo: state.redrivenTo,
    finishedAt: state.finishedAt,
  };
}

// Tables: what the memory store holds besides documents and nodes, and who writes to it.

/** The node that writes, and the time. */
export interface Writer {
  readonly now: number;
  readonly nodeId: string;
  /** Destinations whose write in this batch was rejected. */
  readonly refused: Set<string>;
}

interface KeyEntry {
  readonly taskId: string;
  readonly fingerprint: string;
  /** Infinity until the task ends. */
  expiresAt: number;
}

export interface Tables {
  readonly rows: Rows;
  /** By tenant, policy and version. */
  readonly policies: Map<string, PolicyRow>;
  readonly keys: Map<string, KeyEntry>;
  readonly destinations: Map<string, DestinationRow>;
  /** The highest version of the rows that were removed. In an exclusive store always 0. */
  lastRemoved: number;
}
