/** Runs the conformance suite on a store of two shards in memory, and tests what differs from one store. */
import { describe, expect, it } from "vitest";
import { blankDestination } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import type { NewTask } from "../../model/task.ts";
import { storeConformance } from "../conformance.testing.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { batch, claimOf, create, nextTaskId, T0, TENANT } from "../store.testing.ts";
import { shardedStore } from "./sharded-store.ts";

const memories = (count: number) =>
  Array.from({ length: count }, () => memoryStore({ exclusive: false }));

storeConformance("two shards", async () => shardedStore(memories(2)), {
  transfer: "export and import refuse shards",
});

/** A create whose id has that byte. */
function createAt(byte: number, fields: Partial<NewTask> = {}) {
  const hex = byte.toString(16).padStart(2, "0");
  return create({ taskId: nextTaskId().replace("-8000-", `-80${hex}-`), ...fields });
}

/** The tasks of all pages, and the number of pages. */
async function listAll(store: Store, limit: number, maxRows: number): Promise<readonly string[]> {
  const ids: string[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const after = cursor === undefined ? {} : { cursor };
    const page = await store.query.list(TENANT, {}, { limit, maxRows, ...after });
    ids.push(...page.tasks.map(({ taskId }) => taskId));
    cursor = page.cursor;
  }
  return ids;
}

describe("three shards", () => {
  it("add up the upkeep of those that report it", async () => {
    const upkeep = (deadRows: number, oldestTransactionMs: number) => async () => ({
      ...{ deadRows, liveRows: 10, oldestTransactionMs },
    });
    const [one, two, three] = memories(3);
    const stores = [
      { ...one, upkeep: upkeep(1, 7) },
      two,
      { ...three, upkeep: upkeep(2, 5) },
    ] as Store[];
    const sum = { deadRows: 3, liveRows: 20, oldestTransactionMs: 7 };
    expect(await shardedStore(stores).upkeep?.()).toEqual(sum);
    expect(shardedStore(memories(2)).upkeep).toBeUndefined();
  });

  it("list the tasks of all of them in one order, with any page size and row budget", async () => {
    const store = shardedStore(memories(3));
    // Most are on the first shard, so that the others end before it.
    const creates = Array.from({ length: 40 }, (_, n) => createAt(n % 5 === 0 ? n * 6 : 0));
    await store.commit(batch({ creates }));
    const newestFirst = creates
      .map(({ task }) => task.taskId)
      .sort()
      .reverse();
    for (const [limit, maxRows] of [
      [3, 100],
      [7, 2],
      [100, 5],
      [1, 1],
    ] as const) {
      expect(await listAll(store, limit, maxRows)).toEqual(newestFirst);
    }
    expect(await store.query.count(TENANT)).toEqual({ PENDING: 40 });
    const exported = await store.query.export(TENANT, { limit: 100 });
    expect(exported.tasks.map(({ taskId }) => taskId)).toEqual([...newestFirst].reverse());
  });

  it("store the row of a destination on each, and refuse claims under an older one on each", async () => {
    const shards = memories(3);
    const store = shardedStore(shards);
    const bytes = [0, 50, 100];
    await store.commit(
      batch({ creates: bytes.map((byte) => createAt(byte, { destination: "d" })) }),
    );
    const row = { ...blankDestination(TENANT, "d"), version: 1, pausedAt: T0 };
    await store.commit(batch({ destinations: [{ row }] }));
    expect(shards.map((shard) => shard.peekDestination(TENANT, "d"))).toEqual([row, row, row]);
    const claim = (version: number) =>
      claimOf("first", { destination: "d", partitions: bytes, version });
    const old = await store.commit(batch({ claims: [claim(0)] }));
    expect(old.claims[0]).toMatchObject({ tasks: [], row });
    const { claims } = await store.commit(batch({ claims: [claim(1)] }));
    expect(claims[0]?.tasks).toHaveLength(3);
  });

  it("repair a copy that is many versions behind, when it refuses a claim", async () => {
    const shards = memories(3);
    const store = shardedStore(shards);
    const home = store.shards?.homeOf(TENANT, "d") ?? 0;
    const other = (home + 1) % 3;
    const rows = Array.from({ length: 250 }, (_, n) => ({
      row: { ...blankDestination(TENANT, "d"), version: n + 1, gateUntil: T0 + n },
    }));
    // The writer died before it has written the copies, and the other shard has only the first one.
    shards[home]?.commitNow(batch({ destinations: rows }));
    shards[other]?.commitNow(batch({ destinations: rows.slice(0, 1) }));
    const byte = [0, 50, 100][other] as number;
    await store.commit(batch({ creates: [createAt(byte, { destination: "d" })] }));
    const claim = claimOf("first", { destination: "d", partitions: [byte], version: 250 });
    const refused = await store.commit(batch({ claims: [claim] }));
    expect(refused.claims[0]).toMatchObject({ tasks: [], row: rows[249]?.row });
    expect(shards[other]?.peekDestination(TENANT, "d")).toEqual(rows[249]?.row);
    const { claims } = await store.commit(batch({ claims: [claim] }));
    expect(claims[0]?.tasks).toHaveLength(1);
  });

  it("copy a policy to the shard of the first task that uses it, with its removed versions", async () => {
    const shards = memories(3);
    const store = shardedStore(shards);
    const policy = { tenantId: TENANT, policyId: "p", document: "{}", createdAt: T0 };
    const home = shards[store.shards?.homeOf(TENANT, "p") ?? 0] as Store;
    // Only at home, as if the other shards had been unreachable.
    await home.addPolicy({ ...policy, version: 1 });
    await home.removePolicy(TENANT, "p", T0 + 1);
    await home.addPolicy({ ...policy, version: 2 });
    const made = [0, 50, 100].map((byte) => createAt(byte, { policyId: "p", policyVersion: 2 }));
    const old = createAt(50, { policyId: "p", policyVersion: 1 });
    const { creates } = await store.commit(batch({ creates: [...made, old] }));
    expect(creates.map(({ kind }) => kind)).toEqual([
      "created",
      "created",
      "created",
      "unknown-policy",
    ]);
    for (const shard of shards) {
      const versions = [1, 2].map((version) => shard.getPolicy(TENANT, "p", version));
      const removedAts = (await Promise.all(versions)).map((row) => row?.removedAt);
      expect(removedAts).toEqual([T0 + 1, null]);
    }
    expect(await store.removePolicy(TENANT, "p", T0 + 2)).toBe(false);
    await store.commit(batch({ cancels: made.map(({ task }) => task) }));
    expect(await store.removePolicy(TENANT, "p", T0 + 2)).toBe(true);
  });

  it("read rows and policies from the copies while their home cannot be reached", async () => {
    const shards = memories(3);
    let isDown = false;
    const home = shardedStore(shards).shards?.homeOf(TENANT, "d") ?? 0;
    const fail = () => Promise.reject(new Error("down"));
    const broken = shards.map((shard, index): Store => {
      if (index !== home) return shard;
      const { getDestination, getPolicy } = shard;
      return {
        ...shard,
        getDestination: (...args) => (isDown ? fail() : getDestination(...args)),
        getPolicy: (...args) => (isDown ? fail() : getPolicy(...args)),
      };
    });
    const store = shardedStore(broken);
    const row = { ...blankDestination(TENANT, "d"), version: 1, pausedAt: T0 };
    await store.commit(batch({ destinations: [{ row }] }));
    await store.addPolicy({
      tenantId: TENANT,
      policyId: "d",
      version: 1,
      document: "{}",
      createdAt: T0,
    });
    isDown = true;
    expect(await store.getDestination(TENANT, "d")).toEqual(row);
    expect(await store.getPolicy(TENANT, "d")).toMatchObject({ version: 1 });
    // Nobody knows whether another policy of that home exists.
    const unknown = Array.from({ length: 50 }, (_, n) => `p${n}`).find(
      (id) => store.shards?.homeOf(TENANT, id) === home,
    );
    await expect(store.getPolicy(TENANT, unknown ?? "")).rejects.toThrow(`shard ${home + 1}: down`);
  });

  it("cannot be stores of one process, or of different sizes", () => {
    const shared = () => memoryStore({ exclusive: false });
    expect(() => shardedStore([shared(), memoryStore()])).toThrow("PostgreSQL or Redis");
    const larger = memoryStore({ exclusive: false, partitions: 128 });
    expect(() => shardedStore([shared(), larger])).toThrow("64,128");
    expect(() => shardedStore(memories(65))).toThrow("at most 64 shards, got 65");
  });
});
