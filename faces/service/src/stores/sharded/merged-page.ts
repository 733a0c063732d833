/**
 * Merged page: the pages of several shards as one page, in the same order. A shard that has examined
 * only some of its rows limits what may be listed: an earlier row may still come from it.
 *
 * The cursor of each page is the position of the last row that the shard examined, so the cursor of the
 * merged page is valid for every shard.
 */

export interface PartPage<Item> {
  readonly items: readonly Item[];
  /** Null: the shard has no more. */
  readonly cursor: string | null;
}

export interface MergeOrder<Item> {
  readonly positionOf: (item: Item) => string;
  /** Negative if `a` comes first. */
  readonly compare: (a: string, b: string) => number;
  /** Makes one of several items with the same position. */
  readonly join: (items: readonly Item[]) => Item;
}

export function mergedPage<Item>(
  pages: readonly PartPage<Item>[],
  limit: number,
  { positionOf, compare, join }: MergeOrder<Item>,
): PartPage<Item> {
  const cursors = pages.flatMap(({ cursor }) => cursor ?? []).sort(compare);
  const frontier = cursors[0] ?? null;
  const byPosition = new Map<string, Item[]>();
  for (const item of pages.flatMap(({ items }) => items)) {
    const position = positionOf(item);
    if (frontier !== null && compare(position, frontier) > 0) continue;
    const same = byPosition.get(position);
    if (same === undefined) byPosition.set(position, [item]);
    else same.push(item);
  }
  const sorted = [...byPosition].sort(([a], [b]) => compare(a, b));
  const kept = sorted.slice(0, limit);
  const items = kept.map(([, same]) => join(same));
  const last = kept.at(-1)?.[0];
  return { items, cursor: sorted.length > limit && last !== undefined ? last : frontier };
}

/** The order of bytes, which is the order of names in the stores. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Cursors of several shards, each with its own form. Null: that shard has no more. */
export type ShardCursors = readonly (string | null | undefined)[];

export function readCursors(text: string | undefined, count: number): ShardCursors {
  if (text === undefined) return Array.from({ length: count }, () => undefined);
  const cursors = JSON.parse(text) as readonly (string | null | 0)[];
  return cursors.map((cursor) => (cursor === 0 ? undefined : cursor));
}

/** Null if no shard has more. */
export function writeCursors(cursors: ShardCursors): string | null {
  if (cursors.every((cursor) => cursor === null)) return null;
  return JSON.stringify(cursors.map((cursor) => (cursor === undefined ? 0 : cursor)));
}
