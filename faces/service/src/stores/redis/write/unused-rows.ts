/**
 * Unused rows: removes saved guard state of destinations that do not exist, and nodes that are gone.
 * Rows of destinations stay in a shared store, and scripts remove counts of zero themselves.
 */
import { type DocumentTable, GUARD_DOCUMENT } from "../../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../../model/store.ts";
import type { Link } from "../connection/link.ts";
import { listOf, textOf } from "../connection/reply.ts";
import { ALL_PARTITIONS, joined, type Keys } from "../rows/keys.ts";
import { REMOVE_LAPSED } from "../scripts/node-scripts.ts";
import { HAVE_TASKS } from "../scripts/partition-scripts.ts";

export interface UnusedParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly documents: DocumentTable;
}

/** A cursor is the position in the saved guard states. Nodes are few, and come with the last page. */
export function unusedRows(parts: UnusedParts): Pick<Store, "removeUnused"> {
  return {
    async removeUnused(query) {
      const guards = await removeGuards(parts, query);
      if (guards.cursor !== null) return guards;
      return { removed: guards.removed + (await removeNodes(parts)), cursor: null };
    },
  };
}

async function removeGuards(parts: UnusedParts, query: UnusedQuery): Promise<UnusedPage> {
  const { link, keys, documents } = parts;
  const { limit, cursor } = query;
  const page = await documents.list(GUARD_DOCUMENT, { limit, cursor });
  const places = page.documents.flatMap(({ tenantId, id }) => [tenantId, id]);
  if (places.length === 0) return { removed: 0, cursor: page.cursor };
  const ids = page.documents.map(({ tenantId, id }) => joined(tenantId, id));
  const rows = listOf(await link.call("hmget", `${keys.control}:r`, ...ids));
  const tasks = await Promise.all(
    ALL_PARTITIONS.map((partition) => link.run(HAVE_TASKS, [keys.base(partition)], places)),
  );
  const unused = page.documents.filter(
    (_, at) => rows[at] === null && tasks.every((found) => listOf(found)[at] === 0),
  );
  for (const { tenantId, id } of unused) await documents.remove(GUARD_DOCUMENT, tenantId, id);
  return { removed: unused.length, cursor: page.cursor };
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
