/**
 * Policy table: the versions of policies. A create is checked in its own partition, which is told of a
 * policy before the first create that needs it there. A removal first blocks the policy in every partition, as
 * long as no task uses it, and only then takes effect. Until then, a create that needs the policy makes the
 * removal void. See docs/decisions/0027.
 */
import { partitionOf } from "../../model/partition.ts";
import { INLINE_PREFIX, type PolicyRow, PRESET_VERSION, type Store } from "../../model/store.ts";
import type { NewTask } from "../../model/task.ts";
import { allDone, bytesOf, type Link, listOf, textOf } from "./connection/link.ts";
import { pack, type Unpacked, unpackList } from "./message-pack.ts";
import { ALL_PARTITIONS, joined, type Keys, PARTITIONS } from "./rows.ts";
import {
  ADD_POLICY,
  BEGIN_REMOVAL,
  BLOCK_POLICY,
  END_REMOVAL,
  LIST_POLICIES,
  READ_POLICIES,
  READ_POLICY,
  TELL_POLICY,
} from "./scripts/policy-scripts.ts";

type PolicyMethods = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

type PolicyId = Pick<PolicyRow, "tenantId" | "policyId">;

/** What a partition must know: the epoch, the newest version, and the newest removed one. */
type Entry = readonly [epoch: number, newest: number, removedUpTo: number];

/** A removal that takes longer is void. */
const REMOVAL_MS = 10_000;

/** Beyond this number, partitions are told again. */
const MAX_TOLD = 100_000;

export class PolicyTable {
  readonly #link: Link;
  readonly #keys: Keys;
  /** What this process has told: partition, policy and version. */
  readonly #told = new Set<string>();

  constructor(link: Link, keys: Keys) {
    this.#link = link;
    this.#keys = keys;
  }

  /** Tells the partitions of tasks the policies that this process has not told them yet. */
  async tellNew(tasks: readonly NewTask[]): Promise<void> {
    const pinned = tasks.filter(({ policyVersion }) => policyVersion !== PRESET_VERSION);
    const fresh = pinned.filter((task) => !this.#told.has(this.#placeOf(task)));
    if (fresh.length > 0) await this.tell(fresh, false);
  }

  #placeOf({ taskId, tenantId, policyId, policyVersion }: NewTask): string {
    const partition = partitionOf(taskId, PARTITIONS);
    return joined(String(partition), tenantId, policyId, String(policyVersion));
  }

  /**
   * Tells the partitions of tasks their policies. False for each task whose policy is unknown.
   * `mayHaveWritten`: a part of the same commit was done before.
   */
  async tell(tasks: readonly NewTask[], mayHaveWritten: boolean): Promise<readonly boolean[]> {
    const entries = await this.#read([...new Set(tasks.map(idOf))]);
    const told = new Map<string, Promise<unknown>>();
    const known = tasks.map((task) => {
      const id = idOf(task);
      const entry = entries.get(id);
      if (entry === undefined || !isUsable(entry, task.policyVersion)) return false;
      const base = this.#keys.base(partitionOf(task.taskId, PARTITIONS));
      const place = joined(base, id);
      if (!told.has(place)) told.set(place, this.#tell(base, id, entry));
      return true;
    });
    await allDone([...told.values()], mayHaveWritten);
    if (this.#told.size > MAX_TOLD) this.#told.clear();
    for (const [at, task] of tasks.entries()) if (known[at]) this.#told.add(this.#placeOf(task));
    return known;
  }

  #tell(base: string, id: string, entry: Entry): Promise<unknown> {
    return this.#link.run(TELL_POLICY, [base], [id, pack(entry)]);
  }

  /** Makes removals void that have not ended. To wait for one would keep the other items of a commit waiting. */
  async #read(ids: readonly string[]): Promise<ReadonlyMap<string, Entry>> {
    const reply = await this.#link.run(READ_POLICIES, [this.#keys.control], ids);
    const cells = unpackList(bytesOf(reply));
    return new Map(
      ids.flatMap((id, at) => (cells[at] === null ? [] : [[id, cells[at] as unknown as Entry]])),
    );
  }

  methods(): PolicyMethods {
    const { control } = this.#keys;
    const link = this.#link;
    return {
      addPolicy: (policy) =>
        link.replicated(async () => {
          const { tenantId, policyId, version, document, createdAt } = policy;
          const row = pack([tenantId, policyId, version, document, createdAt, null]);
          const args = [joined(tenantId, policyId), version, row, isInline(policyId) ? 1 : 0];
          const [added] = await allDone([link.run(ADD_POLICY, [control], args)]);
          return added === 1;
        }),
      async getPolicy(tenantId, policyId, version) {
        const args = [joined(tenantId, policyId), version ?? ""];
        const row = await link.run(READ_POLICY, [control], args);
        return row === null ? null : policyOf(unpackList(bytesOf(row)));
      },
      async listPolicies(tenantId) {
        const rows = await link.run(LIST_POLICIES, [control], [tenantId]);
        return listOf(rows).map((row) => policyOf(unpackList(bytesOf(row))));
      },
      removePolicy: (tenantId, policyId, now) =>
        link.replicated(() => this.#remove(joined(tenantId, policyId), now)),
      removeInline: async (policies) => {
        const inline = policies.filter(({ policyId }) => isInline(policyId));
        await link.replicated(async () => {
          for (const policy of inline) await this.#remove(idOf(policy), null);
        });
      },
      unusedPolicies: async ({ limit, cursor }) => {
        const after = cursor === undefined ? "-" : `(${cursor}`;
        const range = ["+", "LIMIT", 0, limit] as const;
        const reply = await link.call("zrangebylex", `${control}:px`, after, ...range);
        const ids = listOf(reply).map(textOf);
        const isUsed = await this.#areUsed(ids);
        const unused = ids.filter((_, at) => !isUsed[at]);
        const policies = unused.map((id) => {
          const [tenantId = "", policyId = ""] = id.split("\n");
          return { tenantId, policyId };
        });
        return { policies, cursor: ids.length < limit ? null : (ids.at(-1) ?? null) };
      },
    };
  }

  /** `removedAt` null: an inline policy, which is deleted. */
  async #remove(id: string, removedAt: number | null): Promise<boolean> {
    const { control } = this.#keys;
    const begin = await this.#link.run(BEGIN_REMOVAL, [control], [id, REMOVAL_MS]);
    const epoch = Number(begin);
    if (epoch === 0) return false;
    const args = [id, epoch, removedAt === null ? 1 : 0];
    const blocked = await allDone(
      ALL_PARTITIONS.map((partition) =>
        this.#link.run(BLOCK_POLICY, [this.#keys.base(partition)], args),
      ),
      true,
    );
    const isUsed = blocked.includes(0);
    const isDone =
      !isUsed && (await this.#link.run(END_REMOVAL, [control], [id, epoch, removedAt ?? ""])) === 1;
    if (!isDone) await this.#unblock(id);
    return isDone;
  }

  /** Gives up a removal. The next create in each partition is not refused and repeated then. */
  async #unblock(id: string): Promise<void> {
    const entry = (await this.#read([id])).get(id);
    if (entry === undefined) return;
    await allDone(
      ALL_PARTITIONS.map((one) => this.#tell(this.#keys.base(one), id, entry)),
      true,
    );
  }

  /** Whether a stored task of any partition uses each inline policy. */
  async #areUsed(ids: readonly string[]): Promise<readonly boolean[]> {
    if (ids.length === 0) return [];
    const replies = await Promise.all(
      ALL_PARTITIONS.map((partition) =>
        this.#link.call("hmget", `${this.#keys.base(partition)}:pi`, ...ids),
      ),
    );
    return ids.map((_, at) => replies.some((reply) => listOf(reply)[at] !== null));
  }
}

function idOf({ tenantId, policyId }: PolicyId): string {
  return joined(tenantId, policyId);
}

function isInline(policyId: string): boolean {
  return policyId.startsWith(INLINE_PREFIX);
}

function isUsable([, newest, removedUpTo]: Entry, version: number): boolean {
  return version > removedUpTo && version <= newest;
}

export function policyOf(cells: readonly Unpacked[]): PolicyRow {
  const [tenantId, policyId, version, document, createdAt, removedAt] = cells;
  return { tenantId, policyId, version, document, createdAt, removedAt } as PolicyRow;
}
