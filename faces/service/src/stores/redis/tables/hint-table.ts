/**
 * Hint table: hints that nodes leave for each other. A partition keeps one hint per lane until the node
 * that leases it has handled it. A message tells the nodes at once, if it arrives.
 */
import type { LaneDue } from "../../../model/lane-due.ts";
import { type DueHint, MAX_HINTS } from "../../../model/node-report.ts";
import { LANES } from "../../../model/task.ts";
import type { Link } from "../connection/link.ts";
import { listOf, type Reply, textOf } from "../connection/reply.ts";
import type { Keys } from "../rows/keys.ts";
import { pack, type Unpacked, unpackList } from "../rows/message-pack.ts";
import { HINTS, REMOVE_HINTS } from "../scripts/partition-scripts.ts";

export class HintTable {
  readonly #link: Link;
  readonly #keys: Keys;

  constructor(link: Link, keys: Keys) {
    this.#link = link;
    this.#keys = keys;
  }

  /** The hints of these partitions, as far as one exchange returns them. */
  async read(partitions: readonly number[]): Promise<readonly DueHint[]> {
    const replies = await Promise.all(
      partitions.map((partition) =>
        this.#link.run(HINTS, [this.#keys.base(partition)], [MAX_HINTS]),
      ),
    );
    const hints = replies.flatMap((reply, at) => hintsOf(listOf(reply), partitions[at] ?? 0));
    return hints.slice(0, MAX_HINTS);
  }

  /** An id is the partition, the number of the hint, and its lane. */
  async remove(hintIds: readonly string[]): Promise<void> {
    const byPartition = new Map<number, string[]>();
    for (const hintId of hintIds) {
      const [, partition, number = "", lane = ""] = /^(\d+) (\d+) (.*)$/su.exec(hintId) ?? [];
      const args = byPartition.get(Number(partition)) ?? [];
      byPartition.set(Number(partition), [...args, lane, number]);
    }
    await Promise.all(
      [...byPartition].map(([partition, args]) =>
        this.#link.run(REMOVE_HINTS, [this.#keys.base(partition)], args),
      ),
    );
  }

  /** Tells all nodes. Null: they should exchange soon. Best effort: `read` returns every hint. */
  publish(lanes: readonly LaneDue[] | null): void {
    if (lanes?.length === 0) return;
    const items = lanes?.map((one) => [
      one.tenantId,
      one.destination,
      LANES.indexOf(one.lane),
      one.partition,
      one.dueAt,
    ]);
    this.#link.publish(this.#keys.channel, pack([items ?? null])).catch(() => {});
  }
}

/** The lanes of a message. */
export function lanesOf(message: Buffer): readonly LaneDue[] | null {
  const [items] = unpackList(message) as readonly [readonly (readonly Unpacked[])[] | null];
  return (
    items?.map(([tenantId, destination, lane, partition, dueAt]) => ({
      tenantId: tenantId as string,
      destination: destination as string,
      lane: LANES[lane as number] ?? "first",
      partition: partition as number,
      dueAt: dueAt as number,
    })) ?? null
  );
}

/** Lanes and numbers in turns, then the due time of each. */
function hintsOf(reply: readonly Reply[], partition: number): readonly DueHint[] {
  const count = reply.length / 3;
  return Array.from({ length: count }, (_, at) => {
    const name = textOf(reply[2 * at]);
    const number = textOf(reply[2 * at + 1]);
    const dueAt = Number(textOf(reply[2 * count + at]));
    return { ...laneOf(name), partition, dueAt, hintId: `${partition} ${number} ${name}` };
  });
}

/** A lane is named `tenant\ndestination\nnumber`. */
export function laneOf(name: string): Pick<LaneDue, "tenantId" | "destination" | "lane"> {
  const [tenantId = "", destination = "", lane] = name.split("\n");
  return { tenantId, destination, lane: LANES[Number(lane)] ?? "first" };
}
