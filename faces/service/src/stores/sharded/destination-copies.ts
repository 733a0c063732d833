/**
 * Destination copies: the row of a destination on every shard that holds tasks of its tenant. The home
 * shard decides which of two writers is first. The copies carry the same version, so each shard refuses
 * claims under any other one.
 *
 * A write changes the row at home, then the copies, and is acknowledged after that: from then on no
 * shard accepts a claim under an older version. A copy that is behind is repaired when it refuses a
 * claim, or when its shard can be reached again.
 */
import { type Batch, type DestinationWrite, EMPTY_BATCH } from "../../model/batch.ts";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import type { ShardLayout } from "./shard-layout.ts";

/** The node that writes, and the time. */
export type Author = Pick<Batch, "now" | "nodeId">;

/** A copy takes one version after the other. This many are written in one commit. */
const VERSIONS_PER_COMMIT = 100;

/** A copy that is further behind than this many commits is continued at the next refused claim. */
const MAX_COMMITS = 20;

/** Rows that wait for a shard that cannot be reached. Further ones are repaired by refused claims. */
const MAX_WAITING = 10_000;

export interface CopiesParts {
  readonly layout: ShardLayout;
  readonly shards: readonly Store[];
  /** The same shards, but a call ends sooner: an engine waits for copies before it goes on. */
  readonly hasty: readonly Store[];
}

export class DestinationCopies {
  readonly #parts: CopiesParts;
  /** Of each shard: the rows that it does not have yet. */
  readonly #waiting: readonly Map<string, DestinationRow>[];

  constructor(parts: CopiesParts) {
    this.#parts = parts;
    this.#waiting = parts.shards.map(() => new Map());
  }

  /** The row at home; while that cannot be reached, the newest copy. */
  async read(tenantId: string, name: string): Promise<DestinationRow | null> {
    const { layout, hasty } = this.#parts;
    const home = layout.homeOf(tenantId, name);
    const readOn = (shard: number) => (hasty[shard] as Store).getDestination(tenantId, name);
    try {
      return await readOn(home);
    } catch (error) {
      const others = layout.shardsOf(tenantId).filter((shard) => shard !== home);
      if (others.length === 0) throw error;
      const copies = await Promise.all(others.map(readOn));
      const found = copies.filter((copy) => copy !== null);
      return found.sort((a, b) => b.version - a.version)[0] ?? null;
    }
  }

  /**
   * Writes rows. Null for each that was written, otherwise the stored row. With `mayWait`, a shard that
   * cannot be reached gets its copies later; otherwise the call then rejects, and the caller repeats it.
   */
  async write(
    writes: readonly DestinationWrite[],
    author: Author,
    mayWait: boolean,
  ): Promise<readonly (DestinationRow | null)[]> {
    if (writes.length === 0) return [];
    const results = await this.#writeHomes(writes, author);
    const newest = new Map<string, DestinationRow>();
    for (const [index, { row }] of writes.entries()) {
      const stored = results[index] ?? row;
      const key = keyOf(stored);
      if (stored.version > (newest.get(key)?.version ?? 0)) newest.set(key, stored);
    }
    await this.#copy([...newest.values()], author, mayWait);
    return results;
  }

  async #writeHomes(
    writes: readonly DestinationWrite[],
    author: Author,
  ): Promise<readonly (DestinationRow | null)[]> {
    const { layout, shards } = this.#parts;
    const results = writes.map((): DestinationRow | null => null);
    const homes = writes.map(({ row }) => layout.homeOf(row.tenantId, row.name));
    await Promise.all(
      [...new Set(homes)].map(async (home) => {
        const indexes = [...writes.keys()].filter((index) => homes[index] === home);
        const own = indexes.map((index) => writes[index] as DestinationWrite);
        const batch = { ...author, ...EMPTY_BATCH, destinations: own };
        const { destinations } = await (shards[home] as Store).commit(batch);
        for (const [at, index] of indexes.entries()) results[index] = destinations[at] ?? null;
      }),
    );
    return results;
  }

  /** Stores the rows on the other shards of their tenants. */
  async #copy(rows: readonly DestinationRow[], author: Author, mayWait: boolean): Promise<void> {
    const { layout } = this.#parts;
    await Promise.all(
      this.#waiting.map(async (waiting, shard) => {
        const own = rows.filter(({ tenantId, name }) => {
          const isHome = layout.homeOf(tenantId, name) === shard;
          return !isHome && layout.shardsOf(tenantId).includes(shard);
        });
        if (own.length === 0) return;
        // A shard that has failed a moment ago is not asked again: `flush` does that.
        if (mayWait && waiting.size > 0) return this.#wait(shard, own);
        const raising = this.#raise(shard, own, author);
        await (mayWait ? raising.catch(() => this.#wait(shard, own)) : raising);
      }),
    );
  }

  #wait(shard: number, rows: readonly DestinationRow[]): void {
    const waiting = this.#waiting[shard] as Map<string, DestinationRow>;
    for (const row of rows) {
      const isNewer = row.version > (waiting.get(keyOf(row))?.version ?? 0);
      if (isNewer && (waiting.has(keyOf(row)) || waiting.size < MAX_WAITING)) {
        waiting.set(keyOf(row), row);
      }
    }
  }

  /** The shard can be reached: it gets the rows that wait for it. */
  async flush(shard: number, author: Author): Promise<void> {
    const waiting = this.#waiting[shard] as Map<string, DestinationRow>;
    if (waiting.size === 0) return;
    const rows = [...waiting.values()].slice(0, VERSIONS_PER_COMMIT);
    await this.#raise(shard, rows, author);
    for (const row of rows) if (waiting.get(keyOf(row)) === row) waiting.delete(keyOf(row));
  }

  /**
   * A shard has refused a claim and returned its copy. Returns the row at home, after it has made the
   * two equal. If the home shard cannot be reached, the copy counts.
   */
  async repair(shard: number, copy: DestinationRow, author: Author): Promise<DestinationRow> {
    const { layout, hasty } = this.#parts;
    const { tenantId, name } = copy;
    const home = layout.homeOf(tenantId, name);
    if (home === shard) return copy;
    try {
      const atHome =
        (await (hasty[home] as Store).getDestination(tenantId, name)) ??
        blankDestination(tenantId, name);
      if (copy.version < atHome.version) await this.#raise(shard, [atHome], author);
      if (copy.version <= atHome.version) return atHome;
      // The home shard has lost writes, for example after a restore: the versions go on from here.
      const row = { ...(atHome.version === 0 ? copy : atHome), version: copy.version };
      await this.#raise(home, [row], author);
      return row;
    } catch {
      return copy;
    }
  }

  /**
   * Raises copies to the version of the rows. A store writes a row only over the version before it, so
   * a copy that is behind gets the versions in between too, with the same content.
   */
  async #raise(shard: number, rows: readonly DestinationRow[], author: Author): Promise<void> {
    const store = this.#parts.hasty[shard] as Store;
    let left: readonly Raise[] = rows.map((row) => ({ row, from: row.version }));
    for (let commits = 0; left.length > 0; commits++) {
      if (commits >= MAX_COMMITS) {
        throw new Error(`the rows of ${left.length} destinations are still behind`);
      }
      const steps = left.flatMap(stepsOf).slice(0, VERSIONS_PER_COMMIT);
      const destinations = steps.map(({ step }) => ({ row: step }));
      const result = await store.commit({ ...author, ...EMPTY_BATCH, destinations });
      const versions = new Map<DestinationRow, number>();
      for (const [index, { row, step }] of steps.entries()) {
        versions.set(row, result.destinations[index]?.version ?? step.version);
      }
      left = left.flatMap(({ row, from }): Raise[] => {
        const version = versions.get(row);
        if (version === undefined) return [{ row, from }];
        return version >= row.version ? [] : [{ row, from: version + 1 }];
      });
    }
  }
}

interface Raise {
  readonly row: DestinationRow;
  /** The first version to write. */
  readonly from: number;
}

function stepsOf({ row, from }: Raise): readonly { row: DestinationRow; step: DestinationRow }[] {
  const count = Math.min(VERSIONS_PER_COMMIT, row.version - from + 1);
  return Array.from({ length: count }, (_, n) => ({ row, step: { ...row, version: from + n } }));
}

function keyOf({ tenantId, name }: DestinationRow): string {
  return `${tenantId}\n${name}`;
}
