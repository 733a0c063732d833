/** Redis transfer: moves the content of a Redis store. The rows of one partition are added together. */
import { addedRows, compareRows } from "../../../model/transfer/compare.ts";
import type {
  StoreTransfer,
  TransferKind,
  TransferRows,
} from "../../../model/transfer/transfer.ts";
import { listOf, textOf } from "../connection/reply.ts";
import { HAVE_LEASES } from "../scripts/node-scripts.ts";
import { rowReader } from "./row-reader.ts";
import { rowWriter } from "./row-writer.ts";
import type { RowParts } from "./stored-rows.ts";

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
