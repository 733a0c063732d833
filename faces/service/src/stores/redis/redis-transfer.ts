/** Redis transfer: moves the content of a Redis store. The rows of one partition are added together. */

import type { Redis } from "ioredis";
import type { DocumentTable } from "../../model/document-table.ts";
import { partitionOf } from "../../model/partition.ts";
import { INLINE_PREFIX } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import type { RetryTask } from "../../model/task.ts";
import {
  addedRows,
  compareRows,
  type KeyRow,
  partsOf,
  positionOf,
  type Stored,
  type StoreTransfer,
  TAKEN,
  type TransferAttempt,
  type TransferKey,
  type TransferKind,
  type TransferRows,
  type TransferTask,
} from "../../model/transfer.ts";
import {
  allDone,
  bytesOf,
  bytesOrNull,
  type Link,
  listOf,
  type Reply,
  textOf,
} from "./connection/link.ts";
import type { DestinationTable, RowVersion } from "./destination-table.ts";
import { type Packable, pack, unpackList } from "./message-pack.ts";
import { policyOf } from "./policy-table.ts";
import {
  ALL_PARTITIONS,
  ANY_PARTITION,
  attemptOf,
  joined,
  type Keys,
  PARTITIONS,
  packAttempt,
  packHead,
  packRow,
  stateOf,
} from "./rows.ts";
import { HAVE_LEASES } from "./scripts/node-scripts.ts";
import type { Script } from "./scripts/script.ts";
import {
  RESTORE_ATTEMPTS,
  RESTORE_DOCUMENTS,
  RESTORE_KEYS,
  RESTORE_POLICIES,
  RESTORE_ROWS,
  RESTORE_TASKS,
} from "./scripts/transfer-scripts.ts";
import { MergedMembers, taskReader } from "./task-list.ts";

export function redisTransfer(parts: RowParts): StoreTransfer {
  const { link, keys } = parts;
  const writer = rowWriter(parts);
  const compare = async <Kind extends TransferKind>(
    kind: Kind,
    rows: readonly TransferRows[Kind][],
  ) => compareRows(kind, rows, await writer[kind].find(rows));
  return {
    async liveNodes() {
      const nodes = listOf(await link.call("hkeys", `${keys.control}:nodes`)).map(textOf);
      if (nodes.length === 0) return [];
      const leases = listOf(await link.run(HAVE_LEASES, [keys.control], nodes));
      return nodes.filter((_, at) => leases[at] === 1);
    },
    read: rowReader(parts),
    compare,
    write: (kind, rows) =>
      link.replicated(async () => {
        const results = await compare(kind, rows);
        const added = addedRows(rows, results);
        if (added.length > 0) await writer[kind].add(added);
        return results;
      }),
  };
}

// Group scan: finds the tenants of a Redis store, or the kinds of its documents. Both are only in the
// names of keys, so all keys are examined, step by step.

/** Keys that one step examines. It takes a few milliseconds, for which others wait. */
const STEP_KEYS = 10_000;

/** Steps of one call, on each server. */
const MAX_STEPS = 100;

class GroupScan {
  /** The position on each server; undefined once all keys were examined. */
  readonly #positions: Map<Redis, string | undefined>;
  readonly #prefix: string;
  readonly #names = new Set<string>();
  #sorted: readonly string[] | undefined;

  /** `prefix`: the begin of the keys, in which `*` stands for anything; the rest is the name. */
  constructor(link: Link, prefix: string) {
    this.#prefix = prefix;
    this.#positions = new Map(link.masters().map((master) => [master, "0"]));
  }

  /** Examines some keys. Undefined: call it again. Otherwise the names, in the order of their bytes. */
  async advance(): Promise<readonly string[] | undefined> {
    if (this.#sorted !== undefined) return this.#sorted;
    await Promise.all([...this.#positions.keys()].map((master) => this.#scan(master)));
    if ([...this.#positions.values()].some((position) => position !== undefined)) return undefined;
    const names = [...this.#names].map((name) => Buffer.from(name, "latin1"));
    this.#sorted = names.sort(Buffer.compare).map(String);
    return this.#sorted;
  }

  async #scan(master: Redis): Promise<void> {
    for (let step = 0; step < MAX_STEPS; step++) {
      const position = this.#positions.get(master);
      if (position === undefined) return;
      const pattern = `${this.#prefix}*`;
      const [next, keys] = await master.scanBuffer(position, "MATCH", pattern, "COUNT", STEP_KEYS);
      for (const key of keys) this.#add(key.toString("latin1"));
      this.#positions.set(master, String(next) === "0" ? undefined : String(next));
    }
  }

  #add(key: string): void {
    const [start = "", end = ""] = this.#prefix.split("*");
    const at = end === "" ? start.length : key.indexOf(end, start.length) + end.length;
    this.#names.add(key.slice(at));
  }
}

// Stored rows: reads tasks with their keys, keys, and attempts of a Redis store, by their names.

interface RowParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
  readonly documents: DocumentTable;
}

/** The tasks that exist, each with the row of its key. */
async function readTasks(
  parts: RowParts,
  tenantId: string,
  ids: readonly string[],
): Promise<readonly TransferTask[]> {
  const { link, keys } = parts;
  const tasks = await taskReader(link, keys)({ tenantId, taskIds: ids, withBody: true });
  return Promise.all(tasks.map(async (task) => ({ ...task, key: await keyOfTask(parts, task) })));
}

async function keyOfTask(parts: RowParts, task: RetryTask): Promise<KeyRow | null> {
  const { tenantId, taskId, idempotencyKey } = task;
  if (idempotencyKey === null) return null;
  const found = await readKey(parts, partitionOf(taskId, PARTITIONS), tenantId, idempotencyKey);
  if (found?.taskId !== taskId) return null;
  return { fingerprint: found.fingerprint, expiresAt: found.expiresAt };
}

/** Null: the partition has no such key. */
async function readKey(
  { link, keys }: RowParts,
  partition: number,
  tenantId: string,
  idempotencyKey: string,
): Promise<TransferKey | null> {
  const base = keys.base(partition);
  const field = joined(tenantId, idempotencyKey);
  const [stored, score] = await Promise.all([
    link.call("hget", `${base}:k`, field),
    link.call("zscore", `${base}:ke`, field),
  ]);
  if (stored === null) return null;
  const [taskId, fingerprint] = unpackList(bytesOf(stored)) as [string, string];
  const expiresAt = score === null ? null : Number(textOf(score));
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt };
}

function attemptKey({ keys }: RowParts, tenantId: string, taskId: string): string {
  const base = keys.base(partitionOf(taskId, PARTITIONS));
  return `${base}:a:${joined(tenantId, taskId)}`;
}

function attemptsOf(tenantId: string, taskId: string, list: Reply): readonly TransferAttempt[] {
  return listOf(list).map((one) => ({ tenantId, taskId, ...attemptOf(bytesOf(one)) }));
}

// Row reader: reads the rows of a Redis store as they are, in pages. Rows are read group by group: the
// rows of one tenant, the documents of one kind, the keys of one partition.

interface GroupPage<Row> {
  readonly rows: readonly Row[];
  /** Null: the group is complete. */
  readonly position: Position | null;
}

type Position = readonly (string | number)[];

/** The rows of one group, after a position; undefined: from the beginning. */
type ReadGroup<Kind extends TransferKind> = (
  group: string,
  after: Position | undefined,
  limit: number,
) => Promise<GroupPage<TransferRows[Kind]>>;

type ReadGroups = { readonly [Kind in TransferKind]: ReadGroup<Kind> };

function rowReader(parts: RowParts): StoreTransfer["read"] {
  const { keys, link } = parts;
  const groups: ReadGroups = {
    policy: (...page) => policyPage(parts, ...page),
    destination: (...page) => destinationPage(parts, ...page),
    document: (...page) => documentPage(parts, ...page),
    task: (...page) => taskPage(parts, ...page),
    attempt: (...page) => attemptPage(parts, ...page),
    key: (...page) => keyPage(parts, ...page),
  };
  const ofTasks = keys.base(0).replace(/\{.*\}/u, ANY_PARTITION);
  const prefixes: Readonly<Partial<Record<TransferKind, string>>> = {
    policy: `${keys.control}:pl:`,
    destination: `${keys.control}:rn:`,
    document: `${keys.control}:dl:`,
    task: `${ofTasks}:l:`,
    attempt: `${ofTasks}:l:`,
  };
  const scans = new Map<TransferKind, GroupScan>();
  const namesOf = async (kind: TransferKind, isNew: boolean) => {
    const prefix = prefixes[kind];
    if (prefix === undefined) return ALL_PARTITIONS.map(String);
    const scan = (isNew ? undefined : scans.get(kind)) ?? new GroupScan(link, prefix);
    scans.set(kind, scan);
    return scan.advance();
  };
  return async (kind, { limit, cursor }) => {
    const names = await namesOf(kind, cursor === undefined);
    if (names === undefined) return { rows: [], cursor: cursor ?? BEGINNING };
    const [group = names[0], ...after] = JSON.parse(cursor ?? BEGINNING) as [string?, ...Position];
    if (group === undefined) return { rows: [], cursor: null };
    const page = await groups[kind](group, after.length === 0 ? undefined : after, limit);
    return { rows: page.rows, cursor: cursorAfter(names, group, page.position) };
  };
}

/** The position before the first group. */
const BEGINNING = "[]";

function cursorAfter(
  names: readonly string[],
  group: string,
  position: Position | null,
): string | null {
  if (position !== null) return JSON.stringify([group, ...position]);
  const at = names.indexOf(group);
  if (at < 0) throw new Error(`the cursor names ${group}, which the store does not have`);
  const next = names[at + 1];
  return next === undefined ? null : JSON.stringify([next]);
}

/** Members of a sorted set in which all scores are 0. */
async function members(
  link: Link,
  key: string,
  from: string | undefined,
  limit: number,
): Promise<readonly string[]> {
  const reply = await link.call("zrangebylex", key, from ?? "-", "+", "LIMIT", 0, limit);
  return listOf(reply).map(textOf);
}

/** The versions of a policy are 1 to the newest. */
async function policyPage(
  { link, keys: { control } }: RowParts,
  tenantId: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferRows["policy"]>> {
  const [first, version = 0] = after ?? [];
  const from = first === undefined ? undefined : `[${first}`;
  const ids = await members(link, `${control}:pl:${tenantId}`, from, limit + 1);
  if (ids.length === 0) return { rows: [], position: null };
  const policies = ids.map((id) => joined(tenantId, id));
  const entries = listOf(await link.call("hmget", `${control}:pn`, ...policies));
  const all = ids.flatMap((id, at) => {
    const newest = Number(unpackList(bytesOf(entries[at]))[1]);
    const known = id === first ? Number(version) : 0;
    const count = Math.max(0, Math.min(newest - known, limit + 1));
    return Array.from({ length: count }, (_, n) => [id, known + n + 1] as const);
  });
  const page = all.slice(0, limit);
  const fields = page.map(([id, one]) => joined(tenantId, id, String(one)));
  const found = fields.length === 0 ? [] : await link.call("hmget", `${control}:pr`, ...fields);
  const rows = listOf(found).flatMap((row) => {
    const bytes = bytesOrNull(row);
    return bytes === null ? [] : [policyOf(unpackList(bytes))];
  });
  const isComplete = all.length <= limit && ids.length <= limit;
  return { rows, position: isComplete ? null : (page.at(-1) ?? [ids.at(-1) ?? "", 0]) };
}

async function destinationPage(
  { link, keys: { control }, destinations }: RowParts,
  tenantId: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferRows["destination"]>> {
  const from = after === undefined ? undefined : `(${after[0]}`;
  const names = await members(link, `${control}:rn:${tenantId}`, from, limit);
  const rows = await destinations.readNames(tenantId, names);
  return { rows, position: names.length < limit ? null : [names.at(-1) ?? ""] };
}

async function documentPage(
  { documents }: RowParts,
  kind: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferRows["document"]>> {
  const cursor = after === undefined ? undefined : String(after[0]);
  const page = await documents.list(kind, { limit, cursor });
  return { rows: page.documents, position: page.cursor === null ? null : [page.cursor] };
}

/** The ids of a tenant's tasks, the oldest first. */
function taskIds(
  { link, keys }: RowParts,
  tenantId: string,
  after: string | undefined,
  limit: number,
): Promise<readonly string[]> {
  const all = ALL_PARTITIONS.map((one) => `${keys.base(one)}:l:${tenantId}`);
  return new MergedMembers(link, { keys: all, isDescending: false, after }).next(limit);
}

async function taskPage(
  parts: RowParts,
  tenantId: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferTask>> {
  const ids = await taskIds(parts, tenantId, after && String(after[0]), limit + 1);
  const page = ids.slice(0, limit);
  const rows = await readTasks(parts, tenantId, page);
  return { rows, position: ids.length > limit ? [page.at(-1) ?? ""] : null };
}

/** A position is a task, and the number of its attempts that were read. */
async function attemptPage(
  parts: RowParts,
  tenantId: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferAttempt>> {
  const [first, read = 0] = after ?? [];
  const later = await taskIds(
    parts,
    tenantId,
    first === undefined ? undefined : String(first),
    limit + 1,
  );
  const ids = first === undefined ? later : [String(first), ...later];
  const place = (id: string) => attemptKey(parts, tenantId, id);
  const lengths = await Promise.all(ids.map((id) => parts.link.call("llen", place(id))));
  let left = limit;
  const ranges = ids.flatMap((id, at) => {
    const start = id === first ? Number(read) : 0;
    const count = Math.min(left, Number(lengths[at]) - start);
    left -= count;
    return count > 0 ? [{ id, start, count }] : [];
  });
  const lists = await Promise.all(
    ranges.map(({ id, start, count }) =>
      parts.link.call("lrange", place(id), start, start + count - 1),
    ),
  );
  const rows = ranges.flatMap(({ id }, at) => attemptsOf(tenantId, id, lists[at] ?? []));
  const last = ranges.at(-1);
  if (left === 0 && last !== undefined)
    return { rows, position: [last.id, last.start + last.count] };
  return {
    rows,
    position: later.length > limit ? [ids.at(-1) ?? "", lengths.at(-1) as number] : null,
  };
}

/** Keys that expire, by the instant. If nothing is written, a rank is a stable position. */
async function keyPage(
  parts: RowParts,
  group: string,
  after: Position | undefined,
  limit: number,
): Promise<GroupPage<TransferKey>> {
  const { link, keys } = parts;
  const partition = Number(group);
  const first = Number(after?.[0] ?? 0);
  const base = keys.base(partition);
  const reply = await link.call("zrange", `${base}:ke`, first, first + limit - 1);
  const names = listOf(reply).map(textOf);
  const found = await Promise.all(
    names.map((name) => {
      const [tenantId = "", idempotencyKey = ""] = name.split("\n");
      return readKey(parts, partition, tenantId, idempotencyKey);
    }),
  );
  const known = found.filter((one) => one !== null);
  const exist = await Promise.all(
    known.map(({ tenantId, taskId }) =>
      link.call("hexists", `${base}:s`, joined(tenantId, taskId)),
    ),
  );
  const rows = known.filter((_, at) => exist[at] === 0);
  return { rows, position: names.length < limit ? null : [first + limit] };
}

// Row writer: finds and adds the rows of a Redis store as they are. A script adds the rows of one
// partition, and all others are on one server.

type RowWriter = {
  readonly [Kind in TransferKind]: {
    find(rows: readonly TransferRows[Kind][]): Promise<readonly Stored<TransferRows[Kind]>[]>;
    add(rows: readonly TransferRows[Kind][]): Promise<void>;
  };
};

function rowWriter(parts: RowParts): RowWriter {
  const { documents } = parts;
  return {
    policy: policyWriter(parts),
    destination: destinationWriter(parts),
    document: {
      find: (rows) =>
        Promise.all(rows.map(({ kind, tenantId, id }) => documents.get(kind, tenantId, id))),
      async add(rows) {
        const items = rows.map((row) => [
          row.kind,
          joined(row.tenantId, row.id),
          row.version,
          row.text,
        ]);
        await addAll([runOnControl(parts, RESTORE_DOCUMENTS, [pack(items)])]);
      },
    },
    task: taskWriter(parts),
    attempt: attemptWriter(parts),
    key: {
      find: (rows) =>
        Promise.all(
          rows.map(({ tenantId, idempotencyKey, taskId }) =>
            readKey(parts, partitionOf(taskId, PARTITIONS), tenantId, idempotencyKey),
          ),
        ),
      add: (rows) =>
        addByPartition(parts, RESTORE_KEYS, rows, (row) => [
          joined(row.tenantId, row.idempotencyKey),
          row.taskId,
          row.fingerprint,
          row.expiresAt,
        ]),
    },
  };
}

function runOnControl({ link, keys }: RowParts, script: Script, args: readonly Buffer[]) {
  return link.run(script, [keys.control], args);
}

/** Another process has added one of the rows since they were compared. */
async function addAll(runs: readonly Promise<Reply>[]): Promise<void> {
  const refused = (await allDone(runs)).find((reply) => reply !== 0);
  if (refused === undefined) return;
  throw new Error(`the store was changed meanwhile: ${String(refused).replace("\n", " ")}`);
}

function groupBy<Row, Key>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row)) ?? [];
    groups.set(keyOf(row), group);
    group.push(row);
  }
  return groups;
}

/** Runs the script in each partition with the items of its tasks. */
function addByPartition<Row extends { readonly taskId: string }>(
  { link, keys }: RowParts,
  script: Script,
  rows: readonly Row[],
  itemOf: (row: Row) => Packable,
): Promise<void> {
  const items = groupBy(rows, ({ taskId }) => partitionOf(taskId, PARTITIONS));
  const runs = [...items].map(([partition, own]) =>
    link.run(script, [keys.base(partition)], [pack(own.map(itemOf))]),
  );
  return addAll(runs);
}

function policyWriter(parts: RowParts): RowWriter["policy"] {
  const { link, keys } = parts;
  const nameOf = (row: TransferRows["policy"]) => joined(row.tenantId, row.policyId);
  return {
    async find(rows) {
      if (rows.length === 0) return [];
      const fields = rows.map((row) => joined(nameOf(row), String(row.version)));
      const found = listOf(await link.call("hmget", `${keys.control}:pr`, ...fields));
      return found.map((row) => {
        const bytes = bytesOrNull(row);
        return bytes === null ? null : policyOf(unpackList(bytes));
      });
    },
    async add(rows) {
      const items = rows.map((row) => {
        const { tenantId, policyId, version, document, createdAt, removedAt } = row;
        const packed = pack([tenantId, policyId, version, document, createdAt, removedAt]);
        const isInline = policyId.startsWith(INLINE_PREFIX) ? 1 : 0;
        return [nameOf(row), version, packed, removedAt, isInline];
      });
      await addAll([runOnControl(parts, RESTORE_POLICIES, [pack(items)])]);
    },
  };
}

function destinationWriter(parts: RowParts): RowWriter["destination"] {
  const { destinations } = parts;
  return {
    find: (rows) =>
      Promise.all(
        rows.map(async ({ tenantId, name }) => {
          const [row = null] = await destinations.readNames(tenantId, [name]);
          return row;
        }),
      ),
    async add(rows) {
      await addAll([runOnControl(parts, RESTORE_ROWS, rows.map(packRow))]);
      const versions = rows.map(
        ({ tenantId, name, version }): RowVersion => [joined(tenantId, name), version],
      );
      await allDone(destinations.raise(versions), true);
      destinations.recordRaised(versions);
    },
  };
}

function taskWriter(parts: RowParts): RowWriter["task"] {
  return {
    async find(rows) {
      const byTenant = groupBy(rows, ({ tenantId }) => tenantId);
      const found = await Promise.all(
        [...byTenant].map(([tenantId, own]) =>
          readTasks(parts, tenantId, [...new Set(own.map(({ taskId }) => taskId))]),
        ),
      );
      const nameOf = ({ tenantId, taskId }: TransferTask) => joined(tenantId, taskId);
      const byName = new Map(found.flat().map((task) => [nameOf(task), task]));
      return Promise.all(rows.map((row) => byName.get(nameOf(row)) ?? findTaken(parts, row)));
    },
    add: (rows) =>
      addByPartition(parts, RESTORE_TASKS, rows, (row) => {
        const { task } = partsOf(row);
        const { fingerprint = null, expiresAt = null } = row.key ?? {};
        const name = [row.tenantId, row.taskId];
        return [...name, stateOf(row), packHead(task), row.body, fingerprint, expiresAt];
      }),
  };
}

/** A task that is not stored, but whose key may be. */
async function findTaken(parts: RowParts, row: TransferTask): Promise<typeof TAKEN | null> {
  const { key, idempotencyKey, tenantId, taskId } = row;
  if (key === null || idempotencyKey === null) return null;
  const partition = partitionOf(taskId, PARTITIONS);
  return (await readKey(parts, partition, tenantId, idempotencyKey)) === null ? null : TAKEN;
}

function attemptWriter(parts: RowParts): RowWriter["attempt"] {
  const { link } = parts;
  const nameOf = ({ tenantId, taskId }: TransferAttempt) => joined(tenantId, taskId);
  /** The attempts of the tasks of rows, by the names of the tasks. */
  async function storedOf(rows: readonly TransferAttempt[]) {
    const tasks = [...new Map(rows.map((row) => [nameOf(row), row])).values()];
    const lists = await Promise.all(
      tasks.map(({ tenantId, taskId }) =>
        link.call("lrange", attemptKey(parts, tenantId, taskId), 0, -1),
      ),
    );
    const attempts = tasks.map(({ tenantId, taskId }, at) =>
      attemptsOf(tenantId, taskId, lists[at] ?? []),
    );
    return new Map(tasks.map((task, at) => [nameOf(task), attempts[at] ?? []]));
  }
  return {
    async find(rows) {
      const stored = [...(await storedOf(rows)).values()].flat();
      const textOf = (row: TransferAttempt) => JSON.stringify(positionOf("attempt", row));
      const byPosition = new Map(stored.map((row) => [textOf(row), row]));
      return rows.map((row) => byPosition.get(textOf(row)) ?? null);
    },
    async add(rows) {
      await assertTasks(parts, rows);
      const stored = await storedOf(rows);
      const byTask = [...groupBy(rows, nameOf)].map(([name, own]) => ({
        taskId: own[0]?.taskId ?? "",
        item: [name, stored.get(name)?.length ?? 0, ...own.map(packAttempt)],
      }));
      await addByPartition(parts, RESTORE_ATTEMPTS, byTask, ({ item }) => item);
    },
  };
}

async function assertTasks(
  { link, keys }: RowParts,
  rows: readonly TransferAttempt[],
): Promise<void> {
  const found = await Promise.all(
    rows.map(({ tenantId, taskId }) => {
      const base = keys.base(partitionOf(taskId, PARTITIONS));
      return link.call("hexists", `${base}:s`, joined(tenantId, taskId));
    }),
  );
  const missing = rows.find((_, at) => found[at] === 0);
  if (missing === undefined) return;
  throw new StoreRefusedError(`the task ${missing.taskId} of an attempt is missing`);
}
