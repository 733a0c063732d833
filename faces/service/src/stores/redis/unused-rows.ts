/**
 * Unused rows: removes rows of destinations that nothing uses, what partitions still know of removed
 * rows, saved guard state of destinations that do not exist, and nodes that are gone. Scripts remove
 * counts of zero themselves.
 */
import { isMeaningless } from "../../model/destination-row.ts";
import { type DocumentTable, GUARD_DOCUMENT } from "../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../model/store.ts";
import { allDone, bytesOf, type Link, listOf, textOf } from "./connection/link.ts";
import type { DestinationTable, RowVersion } from "./destination-table.ts";
import { ALL_PARTITIONS, joined, type Keys, PARTITIONS, rowOf } from "./rows.ts";
import { REMOVE_LAPSED } from "./scripts/node-scripts.ts";
import { HAVE_TASKS } from "./scripts/partition-scripts.ts";
import { ARE_REMAINDERS, REMOVE_ROWS } from "./scripts/row-scripts.ts";

interface UnusedParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly documents: DocumentTable;
  readonly destinations: DestinationTable;
}

/** Removes what is unused in one range, after a position in it. */
type RemoveRange = (
  parts: UnusedParts,
  query: UnusedQuery,
  position: string,
) => Promise<UnusedPage>;

/** They follow each other. Nodes are few, and come with the last page. */
const RANGES: Readonly<Record<string, RemoveRange>> = {
  rows: removeRows,
  versions: removeVersions,
  guards: removeGuards,
};

/** The name of a range, and a position in it. */
const CURSOR = /^(\w+) (.*)$/su;

export function unusedRows(parts: UnusedParts): Pick<Store, "removeUnused"> {
  return {
    async removeUnused(query) {
      const [, range = "", position = ""] = CURSOR.exec(query.cursor ?? "rows 0") ?? [];
      const remove = RANGES[range];
      if (remove === undefined) throw new Error(`the cursor ${query.cursor} is of another store`);
      const page = await remove(parts, query, position);
      if (page.cursor !== null) return page;
      return { removed: page.removed + (await removeNodes(parts)), cursor: null };
    },
  };
}

/** A part of a hash: its fields and values, and where the next part begins; "0": there is none. */
async function scan(link: Link, key: string, position: string, limit: number) {
  const reply = listOf(await link.call("hscan", key, position, "count", limit));
  const cells = listOf(reply[1] ?? []);
  const entries = cells.flatMap((field, at) =>
    at % 2 === 0 ? [[textOf(field), bytesOf(cells[at + 1])] as const] : [],
  );
  return { entries, next: textOf(reply[0]) };
}

/** Removes a row, and then its version from all partitions: see docs/decisions/0027. */
async function removeRows(
  parts: UnusedParts,
  { now, limit }: UnusedQuery,
  position: string,
): Promise<UnusedPage> {
  const { link, keys, destinations } = parts;
  const { entries, next } = await scan(link, `${keys.control}:r`, position, limit);
  const rows = entries.map(([, stored]) => rowOf(stored)).filter((row) => isMeaningless(row, now));
  const hasTasks = await haveTasks(
    parts,
    rows.flatMap(({ tenantId, name }) => [tenantId, name]),
  );
  const versions = rows
    .filter((_, at) => !hasTasks[at])
    .map(({ tenantId, name, version }): RowVersion => [joined(tenantId, name), version]);
  const removed = await chosenBy(parts, REMOVE_ROWS, versions);
  await destinations.drop(removed, true);
  const cursor = next === "0" ? `versions ${await nextPartition(parts)} 0` : `rows ${next}`;
  return { removed: removed.length, cursor };
}

/**
 * A node may crash before all partitions have forgotten a row, and a script that raises its version may
 * arrive late. So one partition is examined in each round, the next one in the next round.
 */
async function removeVersions(
  parts: UnusedParts,
  { limit }: UnusedQuery,
  position: string,
): Promise<UnusedPage> {
  const { link, keys, destinations } = parts;
  const [partition = "0", start = "0"] = position.split(" ");
  const key = `${keys.base(Number(partition))}:v`;
  const { entries, next } = await scan(link, key, start, limit);
  const versions = entries.map(([id, version]): RowVersion => [id, Number(textOf(version))]);
  const remainders = await chosenBy(parts, ARE_REMAINDERS, versions);
  await destinations.drop(remainders, true);
  const cursor = next === "0" ? "guards " : `versions ${partition} ${next}`;
  return { removed: remainders.length, cursor };
}

async function nextPartition({ link, keys }: UnusedParts): Promise<number> {
  return Number(await link.call("hincrby", `${keys.control}:m`, "examined", 1)) % PARTITIONS;
}

/** Those for which the script returns 1. */
async function chosenBy(
  { link, keys }: UnusedParts,
  script: typeof REMOVE_ROWS,
  versions: readonly RowVersion[],
): Promise<readonly RowVersion[]> {
  if (versions.length === 0) return [];
  const [reply = null] = await allDone([link.run(script, [keys.control], versions.flat())]);
  const chosen = listOf(reply);
  return versions.filter((_, at) => chosen[at] === 1);
}

async function removeGuards(
  parts: UnusedParts,
  { limit }: UnusedQuery,
  position: string,
): Promise<UnusedPage> {
  const { link, keys, documents } = parts;
  const after = position === "" ? {} : { cursor: position };
  const page = await documents.list(GUARD_DOCUMENT, { limit, ...after });
  const cursor = page.cursor === null ? null : `guards ${page.cursor}`;
  const ids = page.documents.map(({ tenantId, id }) => joined(tenantId, id));
  if (ids.length === 0) return { removed: 0, cursor };
  const rows = listOf(await link.call("hmget", `${keys.control}:r`, ...ids));
  const hasTasks = await haveTasks(
    parts,
    page.documents.flatMap(({ tenantId, id }) => [tenantId, id]),
  );
  const unused = page.documents.filter((_, at) => rows[at] === null && !hasTasks[at]);
  for (const { tenantId, id } of unused) await documents.remove(GUARD_DOCUMENT, tenantId, id);
  return { removed: unused.length, cursor };
}

/** Whether each destination has a task in any partition: the tenant and the name of each, in turns. */
async function haveTasks(
  { link, keys }: UnusedParts,
  places: readonly string[],
): Promise<readonly boolean[]> {
  if (places.length === 0) return [];
  const found = await Promise.all(
    ALL_PARTITIONS.map((partition) => link.run(HAVE_TASKS, [keys.base(partition)], places)),
  );
  return Array.from({ length: places.length / 2 }, (_, at) =>
    found.some((one) => listOf(one)[at] === 1),
  );
}

async function removeNodes({ link, keys }: UnusedParts): Promise<number> {
  const nodes = listOf(await link.call("hkeys", `${keys.control}:nodes`)).map(textOf);
  if (nodes.length === 0) return 0;
  const claims = await Promise.all(
    ALL_PARTITIONS.map((partition) => link.call("hmget", `${keys.base(partition)}:cn`, ...nodes)),
  );
  const idle = nodes.filter((_, at) => claims.every((counts) => listOf(counts)[at] === null));
  if (idle.length === 0) return 0;
  return Number(await link.run(REMOVE_LAPSED, [keys.control], idle));
}
