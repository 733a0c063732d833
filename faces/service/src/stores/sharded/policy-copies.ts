/**
 * Policy copies: policies on several shards. The home shard of a policy decides about its versions. A
 * shard gets a copy before it stores the first task that uses it, because each shard checks the policy
 * of a task itself. A version never changes, so a copy is never wrong; only its removal may come late,
 * and nodes do not use a removed policy for longer than two seconds.
 */
import { INLINE_PREFIX, type NewPolicy, type PolicyRow, type Store } from "../../model/store.ts";
import type { TaskStatus } from "../../model/task.ts";
import { compareBytes, readCursors, writeCursors } from "./merged-page.ts";
import type { ShardLayout } from "./shard-layout.ts";

/** Versions that are read at once. */
const VERSIONS_AT_ONCE = 20;

/** Pages of open tasks that are examined for a use of a policy, 20,000 rows each. */
const MAX_PAGES = 100;

export interface PolicyCopiesParts {
  readonly layout: ShardLayout;
  readonly shards: readonly Store[];
  /** The same shards, but a call ends sooner. */
  readonly hasty: readonly Store[];
}

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

export class PolicyCopies implements PolicyTable {
  readonly #parts: PolicyCopiesParts;

  constructor(parts: PolicyCopiesParts) {
    this.#parts = parts;
  }

  #home(tenantId: string, policyId: string): number {
    return this.#parts.layout.homeOf(tenantId, policyId);
  }

  /** The shards of the tenant, the home shard of the policy first. */
  #shardsOf(tenantId: string, policyId: string): readonly Store[] {
    const { layout, shards } = this.#parts;
    const home = this.#home(tenantId, policyId);
    const others = layout.shardsOf(tenantId).filter((shard) => shard !== home);
    return [home, ...others].map((shard) => shards[shard] as Store);
  }

  async addPolicy(policy: NewPolicy): Promise<boolean> {
    const { tenantId, policyId } = policy;
    const stores = this.#shardsOf(tenantId, policyId);
    // An inline policy has the digest of its document as id, so any shard may take it.
    if (isInline(policyId)) return firstOf(stores, (store) => store.addPolicy(policy));
    const isAdded = await (stores[0] as Store).addPolicy(policy);
    if (!isAdded) return false;
    // Not needed for a task: it lets the policy be read while its home shard cannot be reached.
    const { layout } = this.#parts;
    const home = this.#home(tenantId, policyId);
    const others = layout.shardsOf(tenantId).filter((shard) => shard !== home);
    await Promise.allSettled(others.map((shard) => this.copyTo(shard, tenantId, policyId)));
    return true;
  }

  async getPolicy(tenantId: string, policyId: string, version?: number): Promise<PolicyRow | null> {
    const [, ...others] = this.#shardsOf(tenantId, policyId);
    const read = (store: Store) => store.getPolicy(tenantId, policyId, version);
    let failure: unknown;
    try {
      const row = await read(this.#parts.hasty[this.#home(tenantId, policyId)] as Store);
      if (row !== null || !isInline(policyId)) return row;
    } catch (error) {
      failure = error;
    }
    const found = await Promise.all(others.map((store) => read(store).catch(() => null)));
    const rows = found.filter((row) => row !== null).sort((a, b) => b.version - a.version);
    if (rows[0] === undefined && failure !== undefined) throw failure;
    return rows[0] ?? null;
  }

  async listPolicies(tenantId: string): Promise<readonly PolicyRow[]> {
    const { layout, shards } = this.#parts;
    const lists = await Promise.all(
      layout.shardsOf(tenantId).map(async (shard) => {
        const rows = await (shards[shard] as Store).listPolicies(tenantId);
        const isOwn = ({ policyId }: PolicyRow) =>
          isInline(policyId) || this.#home(tenantId, policyId) === shard;
        return rows.filter(isOwn);
      }),
    );
    const byId = new Map(lists.flat().map((row) => [row.policyId, row]));
    return [...byId.values()].sort((a, b) => compareBytes(a.policyId, b.policyId));
  }

  /**
   * The copies are checked first, then the home shard decides. A task that is stored meanwhile under a
   * copy keeps its policy: a removed version can still be read.
   */
  async removePolicy(tenantId: string, policyId: string, now: number): Promise<boolean> {
    const [home, ...others] = this.#shardsOf(tenantId, policyId);
    const uses = await Promise.all(others.map((store) => isUsed(store, tenantId, policyId)));
    if (uses.includes(true)) return false;
    const isRemoved = await (home as Store).removePolicy(tenantId, policyId, now);
    // Also after a removal that was interrupted: home has then removed it before.
    const row = isRemoved ? null : await (home as Store).getPolicy(tenantId, policyId);
    if (!isRemoved && (row === null || row.removedAt === null)) return false;
    await Promise.allSettled(others.map((store) => store.removePolicy(tenantId, policyId, now)));
    return isRemoved;
  }

  /** A page has a page of each shard. */
  async unusedPolicies({
    limit,
    cursor,
  }: Parameters<Store["unusedPolicies"]>[0]): ReturnType<Store["unusedPolicies"]> {
    const { shards } = this.#parts;
    const cursors = readCursors(cursor, shards.length);
    const pages = await Promise.all(
      shards.map(async (store, shard) => {
        const from = cursors[shard];
        if (from === null) return { policies: [], cursor: null };
        const page = await store.unusedPolicies({ limit, cursor: from });
        const policies = await Promise.all(
          page.policies.map(async (one) => ((await this.#isUnused(shard, one)) ? [one] : [])),
        );
        return { policies: policies.flat(), cursor: page.cursor };
      }),
    );
    return {
      policies: pages.flatMap(({ policies }) => policies),
      cursor: writeCursors(pages.map((page) => page.cursor)),
    };
  }

  /** The shard does not use it. If another shard has it too, a copy here is removed at once. */
  async #isUnused(
    shard: number,
    policy: Pick<PolicyRow, "tenantId" | "policyId">,
  ): Promise<boolean> {
    const { shards } = this.#parts;
    const { tenantId, policyId } = policy;
    const others = shards.filter((_, other) => other !== shard);
    const found = await Promise.all(others.map((store) => store.getPolicy(tenantId, policyId)));
    if (found.every((row) => row === null)) return true;
    if (this.#home(tenantId, policyId) !== shard) {
      await (shards[shard] as Store).removeInline([policy]);
    }
    return false;
  }

  async removeInline(policies: Parameters<Store["removeInline"]>[0]): Promise<void> {
    await Promise.all(this.#parts.shards.map((store) => store.removeInline(policies)));
  }

  /** Copies the versions that the shard does not have. False: there are none. */
  async copyTo(shard: number, tenantId: string, policyId: string): Promise<boolean> {
    const target = this.#parts.hasty[shard] as Store;
    const newest = await this.getPolicy(tenantId, policyId);
    if (newest === null) return false;
    const own = await target.getPolicy(tenantId, policyId);
    let version = (own?.version ?? 0) + 1;
    if (version > newest.version) return false;
    let removedAt = own === null ? null : await this.#removedAt(own);
    while (version <= newest.version) {
      const count = Math.min(VERSIONS_AT_ONCE, newest.version - version + 1);
      const rows = await Promise.all(
        Array.from({ length: count }, (_, n) => this.getPolicy(tenantId, policyId, version + n)),
      );
      for (const row of rows) {
        if (row === null) continue;
        // A removal is of all versions before it, so it comes before the next version.
        if (removedAt !== null && row.removedAt === null) {
          await target.removePolicy(tenantId, policyId, removedAt);
        }
        ({ removedAt } = row);
        const { removedAt: _, ...policy } = row;
        await target.addPolicy(policy);
      }
      version += count;
    }
    if (removedAt !== null) await target.removePolicy(tenantId, policyId, removedAt);
    return true;
  }

  /** When the policy of this copy was removed; null if it was not, or if the copy knows it. */
  async #removedAt({ tenantId, policyId, version, removedAt }: PolicyRow): Promise<number | null> {
    if (removedAt !== null) return null;
    return (await this.getPolicy(tenantId, policyId, version))?.removedAt ?? null;
  }
}

function isInline(policyId: string): boolean {
  return policyId.startsWith(INLINE_PREFIX);
}

/** The first store that can be reached. */
async function firstOf<T>(stores: readonly Store[], ask: (store: Store) => Promise<T>): Promise<T> {
  let failure: unknown;
  for (const store of stores) {
    try {
      return await ask(store);
    } catch (error) {
      failure ??= error;
    }
  }
  throw failure;
}

const OPEN: readonly TaskStatus[] = ["PENDING", "IN_FLIGHT"];

/** Does a task that has not ended use the policy? */
async function isUsed({ query }: Store, tenantId: string, policyId: string): Promise<boolean> {
  for (const status of OPEN) {
    let cursor: string | undefined;
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const after = cursor === undefined ? {} : { cursor };
      const page = await query.list(tenantId, { policyId, status }, { limit: 1, ...after });
      if (page.tasks.length > 0) return true;
      if (page.cursor === null) break;
      if (pages === MAX_PAGES - 1) throw new Error("too many tasks to find a use of the policy");
      cursor = page.cursor;
    }
  }
  return false;
}
