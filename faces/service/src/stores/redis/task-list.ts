/**
 * Task list: reads one page of a filtered list. It takes the next ids of an index, reads their tasks
 * and filters them, until the page is full or the row budget is used up.
 */

import { partitionOf } from "../../model/partition.ts";
import { ReadAbortedError } from "../../model/store-errors.ts";
import { type RetryTask, taskIdPrefix } from "../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskPage,
} from "../../model/task-query.ts";
import { bytesOf, bytesOrNull, type Link, listOf } from "./connection/link.ts";
import {
  ALL_PARTITIONS,
  joined,
  type Keys,
  mayMatch,
  newTaskOf,
  PARTITIONS,
  type StateCells,
  stateCells,
  taskOf,
} from "./rows.ts";

/** Tasks that are read at once. */
const SLICE_ROWS = 500;

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

export interface ListParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly readTasks: ReadTasks;
}

/** A filtered list of a tenant's tasks, newest first. */
export async function listPage(
  { link, keys, readTasks }: ListParts,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskPage> {
  const { limit, maxRows = MAX_PAGE_ROWS, signal } = page;
  const range = { ...rangeOf(keys, tenantId, filter), after: page.cursor };
  const members = new MergedMembers(link, range);
  const tasks: RetryTask[] = [];
  let last: string | undefined;
  // If every task matches, the first slice is the page.
  let rows = Math.min(limit + 1, SLICE_ROWS);
  for (let left = maxRows; left > 0; rows = SLICE_ROWS) {
    if (signal?.aborted) throw new ReadAbortedError(signal);
    const wanted = Math.min(rows, left);
    const ids = await members.next(wanted);
    const found = await readTasks({ tenantId, taskIds: ids, withBody: false, filter });
    tasks.push(...found.filter((task) => matches(filter, task)));
    if (tasks.length > limit) {
      return { tasks: tasks.slice(0, limit), cursor: tasks[limit - 1]?.taskId ?? null };
    }
    if (ids.length < wanted) return { tasks, cursor: null };
    last = ids.at(-1);
    left -= ids.length;
  }
  return { tasks, cursor: last ?? null };
}

/** The smallest index that has all matching tasks. */
function rangeOf(keys: Keys, tenantId: string, filter: TaskFilter): MemberRange {
  const of = (name: string) => ALL_PARTITIONS.map((partition) => `${keys.base(partition)}:${name}`);
  const { status, idempotencyKey } = filter;
  const range = { isDescending: true, ...idLimits(filter) };
  if (idempotencyKey !== undefined) {
    return { ...range, keys: of("kx"), prefix: joined(tenantId, idempotencyKey, "") };
  }
  if (status === "EXHAUSTED") return { ...range, keys: of(`x:${tenantId}`) };
  const isOpen = status === "PENDING" || status === "IN_FLIGHT";
  return { ...range, keys: of(`${isOpen ? "o" : "l"}:${tenantId}`) };
}

/**
 * Limits of task ids that follow from the times in a filter. An id starts with an instant at or
 * after the creation of its task, and a task does not end before its creation.
 */
function idLimits({ createdFrom, createdTo, finishedTo }: TaskFilter) {
  const before = Math.min(
    createdTo ?? Number.POSITIVE_INFINITY,
    finishedTo ?? Number.POSITIVE_INFINITY,
  );
  return {
    from: createdFrom === undefined ? undefined : taskIdPrefix(createdFrom),
    to: before === Number.POSITIVE_INFINITY ? undefined : taskIdPrefix(before + SLACK_MS),
  };
}

function matches(filter: TaskFilter, task: RetryTask): boolean {
  const { label, createdFrom, createdTo, finishedFrom, finishedTo, redriven, ...equal } = filter;
  const fields = Object.entries(equal) as readonly [keyof typeof equal, unknown][];
  return (
    fields.every(([field, value]) => value === undefined || task[field] === value) &&
    (label === undefined || task.labels[label.name] === label.value) &&
    (redriven === undefined || redriven === (task.redrivenTo !== null)) &&
    isWithin(task.createdAt, createdFrom, createdTo) &&
    isWithin(task.finishedAt, finishedFrom, finishedTo)
  );
}

function isWithin(at: number | null, from: number | undefined, to: number | undefined): boolean {
  if (from === undefined && to === undefined) return true;
  return at !== null && at >= (from ?? 0) && at < (to ?? Number.POSITIVE_INFINITY);
}

// Merged members: reads sorted sets of many partitions as one sorted list. Each set is read in chunks.
// A member is passed on once every set was read beyond it.

interface MemberRange {
  /** Sorted sets in which all scores are 0. */
  readonly keys: readonly string[];
  readonly isDescending: boolean;
  /** Each member begins with it; it is removed. Default: none. */
  readonly prefix?: string;
  /** Inclusive. Default: the first. */
  readonly from?: string | undefined;
  /** Exclusive. Default: the end. */
  readonly to?: string | undefined;
  /** Exclusive: where the previous page ended. */
  readonly after?: string | undefined;
}

interface Source {
  readonly key: string;
  members: string[];
  last: string | undefined;
  isRead: boolean;
}

const MIN_CHUNK = 8;
const MAX_CHUNK = 500;

/** Follows every prefix in the order of bytes: `\n` ends a prefix, and `\v` is the next character. */
function endOf(prefix: string): string {
  return prefix === "" ? "+" : `(${prefix.slice(0, -1)}\v`;
}

/** Members are compared as bytes, as Redis does, and returned as text. */
export class MergedMembers {
  readonly #link: Link;
  readonly #range: MemberRange;
  readonly #sources: readonly Source[];
  #ready: string[] = [];

  constructor(link: Link, range: MemberRange) {
    this.#link = link;
    this.#range = range;
    this.#sources = range.keys.map((key) => ({ key, members: [], last: undefined, isRead: false }));
  }

  /** The next members, without duplicates. Fewer than `count`: the list is complete. */
  async next(count: number): Promise<readonly string[]> {
    while (this.#ready.length < count && this.#sources.some(isOpen)) await this.#read(count);
    const members = this.#ready.slice(0, count);
    this.#ready = this.#ready.slice(count);
    return members.map((member) => Buffer.from(member, "latin1").toString());
  }

  /** Reads the sources that have nothing left, and moves what all have passed to `#ready`. */
  async #read(count: number): Promise<void> {
    const share = Math.ceil((2 * count) / this.#sources.length);
    const chunk = Math.min(MAX_CHUNK, Math.max(MIN_CHUNK, share));
    const empty = this.#sources.filter((one) => one.members.length === 0 && !one.isRead);
    await Promise.all(empty.map((source) => this.#fill(source, chunk)));
    const bound = this.#bound();
    const found = this.#sources.flatMap((source) => this.#take(source, bound));
    const sorted = [...new Set(found)].sort(this.#isAfter);
    this.#ready.push(...sorted.filter((member) => member !== this.#ready.at(-1)));
  }

  async #fill(source: Source, chunk: number): Promise<void> {
    const { prefix = "" } = this.#range;
    const [low, high] = this.#limits(source.last);
    const [command, ...bounds] = this.#range.isDescending
      ? ["zrevrangebylex", high, low]
      : ["zrangebylex", low, high];
    const reply = await this.#link.call(
      command as string,
      source.key,
      ...bounds,
      "LIMIT",
      0,
      chunk,
    );
    const members = listOf(reply).map((member) => bytesOf(member).toString("latin1"));
    source.last = members.at(-1) ?? source.last;
    const skipped = Buffer.byteLength(prefix);
    source.members = members.map((member) => member.slice(skipped));
    source.isRead = members.length < chunk;
  }

  /** The bounds of a command, with the sign of each. */
  #limits(last: string | undefined): readonly [Buffer, Buffer] {
    const { prefix = "", from, to, after, isDescending } = this.#range;
    const low = from === undefined ? `[${prefix}` : `[${prefix}${from}`;
    const high = to === undefined ? endOf(prefix) : `(${prefix}${to}`;
    const passed = passedOf(prefix, last, after);
    const lowest = prefix === "" && from === undefined ? "-" : low;
    if (isDescending) return [Buffer.from(lowest), passed ?? Buffer.from(high)];
    return [passed ?? Buffer.from(lowest), Buffer.from(high)];
  }

  /** The member up to which every source was read; undefined: all are complete. */
  #bound(): string | undefined {
    const lasts = this.#sources
      .filter(({ isRead }) => !isRead)
      .map(({ members }) => members.at(-1));
    return lasts.sort((a = "", b = "") => this.#isAfter(a, b))[0];
  }

  #take(source: Source, bound: string | undefined): readonly string[] {
    const { members } = source;
    if (bound === undefined) {
      source.members = [];
      return members;
    }
    const count = members.filter((member) => this.#isAfter(member, bound) <= 0).length;
    source.members = members.slice(count);
    return members.slice(0, count);
  }

  readonly #isAfter = (a: string, b: string): number => {
    if (a === b) return 0;
    return a < b === this.#range.isDescending ? 1 : -1;
  };
}

function isOpen({ members, isRead }: Source): boolean {
  return !isRead || members.length > 0;
}

/** After the last member that was read, or after the previous page. */
function passedOf(
  prefix: string,
  last: string | undefined,
  after: string | undefined,
): Buffer | undefined {
  if (last !== undefined) return Buffer.concat([Buffer.from("("), Buffer.from(last, "latin1")]);
  return after === undefined ? undefined : Buffer.from(`(${prefix}${after}`);
}

// Task reader: reads tasks by their ids, from all partitions at once.

interface TaskSelection {
  readonly tenantId: string;
  readonly taskIds: readonly string[];
  readonly withBody: boolean;
  /** Tasks that cannot match may be left out. Default: none. */
  readonly filter?: TaskFilter;
}

/** The tasks that exist, in the order of their ids in the selection. */
type ReadTasks = (selection: TaskSelection) => Promise<readonly RetryTask[]>;

export function taskReader(link: Link, keys: Keys): ReadTasks {
  return async (selection) => {
    const byPartition = new Map<number, string[]>();
    for (const taskId of selection.taskIds) {
      const partition = partitionOf(taskId, PARTITIONS);
      const ids = byPartition.get(partition) ?? [];
      byPartition.set(partition, ids);
      ids.push(taskId);
    }
    const parts = await Promise.all(
      [...byPartition].map(([partition, taskIds]) =>
        readPartition(link, keys.base(partition), { ...selection, taskIds }),
      ),
    );
    const found = new Map(parts.flat().map((task) => [task.taskId, task]));
    return selection.taskIds.flatMap((taskId) => found.get(taskId) ?? []);
  };
}

/** Heads are read only for tasks whose state may match: most rows of a filtered list do not. */
async function readPartition(
  link: Link,
  base: string,
  { tenantId, taskIds, withBody, filter = {} }: TaskSelection,
): Promise<readonly RetryTask[]> {
  const read = (kind: string, names: readonly string[]) =>
    link.call("hmget", `${base}:${kind}`, ...names);
  const all = taskIds.map((taskId) => joined(tenantId, taskId));
  const states = listOf(await read("s", all));
  const chosen = all.flatMap((name, at): (readonly [string, StateCells])[] => {
    const state = bytesOrNull(states[at]);
    const cells = state && stateCells(state);
    return cells && mayMatch(cells, filter) ? [[name, cells]] : [];
  });
  if (chosen.length === 0) return [];
  const names = chosen.map(([name]) => name);
  const [heads, bodies] = await Promise.all([
    read("h", names),
    withBody ? read("b", names) : Promise.resolve([]),
  ]);
  return chosen.flatMap(([, cells], at) => {
    const head = bytesOrNull(listOf(heads)[at]);
    return head === null ? [] : [taskOf(newTaskOf(head, bytesOrNull(listOf(bodies)[at])), cells)];
  });
}
