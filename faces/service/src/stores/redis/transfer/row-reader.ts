/**
 * Row reader: reads the rows of a Redis store as they are, in pages. Rows are read group by group: the
 * rows of one tenant, the documents of one kind, the keys of one partition.
 */
import type {
  StoreTransfer,
  TransferAttempt,
  TransferKey,
  TransferKind,
  TransferRows,
  TransferTask,
} from "../../../model/transfer/transfer.ts";
import type { Link } from "../connection/link.ts";
import { bytesOf, bytesOrNull, listOf, textOf } from "../connection/reply.ts";
import { MergedMembers } from "../read/merged-members.ts";
import { ALL_PARTITIONS, joined } from "../rows/keys.ts";
import { unpackList } from "../rows/message-pack.ts";
import { policyOf } from "../tables/policy-table.ts";
import { GroupScan } from "./group-scan.ts";
import { attemptKey, attemptsOf, type RowParts, readKey, readTasks } from "./stored-rows.ts";

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

export function rowReader(parts: RowParts): StoreTransfer["read"] {
  const { keys, link } = parts;
  const groups: ReadGroups = {
    policy: (...page) => policyPage(parts, ...page),
    destination: (...page) => destinationPage(parts, ...page),
    document: (...page) => documentPage(parts, ...page),
    task: (...page) => taskPage(parts, ...page),
    attempt: (...page) => attemptPage(parts, ...page),
    key: (...page) => keyPage(parts, ...page),
  };
  const ofTasks = keys.base(0).replace("{p0}", "{p*}");
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
