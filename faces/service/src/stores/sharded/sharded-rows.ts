/** Sharded rows: open circuits, the removal of what is old, and upkeep, over all shards. */
import type { Store } from "../../model/store.ts";
import { compareBytes, readCursors, writeCursors } from "./merged-page.ts";
import type { ShardLayout } from "./shard-layout.ts";

type RowPart = Pick<Store, "openCircuits" | "sweep" | "removeUnused" | "discard">;

export function shardedRows(layout: ShardLayout, shards: readonly Store[]): RowPart {
  return {
    async openCircuits(tenantId, limit) {
      const found = await Promise.all(
        layout.shardsOf(tenantId).map(async (shard) => {
          const open = await (shards[shard] as Store).openCircuits(tenantId, limit);
          // The row at home is the newest. Each shard returns those of which it is the home.
          return open.filter(({ name }) => layout.homeOf(tenantId, name) === shard);
        }),
      );
      return found
        .flat()
        .sort((a, b) => compareBytes(a.name, b.name))
        .slice(0, limit);
    },
    async sweep(retention) {
      let removed = 0;
      for (const store of shards) {
        if (removed >= retention.limit) break;
        removed += await store.sweep({ ...retention, limit: retention.limit - removed });
      }
      return removed;
    },
    async removeUnused({ now, limit, cursor }) {
      const cursors = readCursors(cursor, shards.length);
      const pages = await Promise.all(
        shards.map((store, shard) => {
          const from = cursors[shard];
          return from === null
            ? { removed: 0, cursor: null }
            : store.removeUnused({ now, limit, cursor: from });
        }),
      );
      return {
        removed: pages.reduce((sum, page) => sum + page.removed, 0),
        cursor: writeCursors(pages.map((page) => page.cursor)),
      };
    },
    async discard(tenantId, taskIds) {
      const counts = await Promise.all(
        shards.map((store, shard) => {
          const own = taskIds.filter((taskId) => layout.shardOfTask(taskId) === shard);
          return own.length === 0 ? 0 : store.discard(tenantId, own);
        }),
      );
      return counts.reduce((sum, count) => sum + count, 0);
    },
  };
}

/** The rows of all shards, and the oldest transaction of any. Absent if no shard has something to report. */
export function shardedUpkeep(shards: readonly Store[]): Pick<Store, "upkeep"> {
  const reporting = shards.flatMap(({ upkeep }) => (upkeep === undefined ? [] : [upkeep]));
  if (reporting.length === 0) return {};
  return {
    async upkeep() {
      const found = await Promise.all(reporting.map((read) => read()));
      return {
        deadRows: found.reduce((sum, { deadRows }) => sum + deadRows, 0),
        liveRows: found.reduce((sum, { liveRows }) => sum + liveRows, 0),
        oldestTransactionMs: Math.max(...found.map((one) => one.oldestTransactionMs)),
      };
    },
  };
}
