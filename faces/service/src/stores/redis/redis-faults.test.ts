/** What a Redis store does when its server restarts, hangs, is full or busy, and when nodes compete. */
// needs: redis
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { blankDestination } from "../../model/destination-row.ts";
import type { WakeUp } from "../../model/lane-due.ts";
import { INLINE_PREFIX, STORE_CALL_MS, type Store } from "../../model/store.ts";
import { anywhere, lostOf, startLoad } from "../load.testing.ts";
import {
  batch,
  claimOf,
  create,
  DESTINATION,
  destinationReport,
  partitionsOf,
  report,
  T0,
  TENANT,
} from "../store.testing.ts";
import { pack } from "./message-pack.ts";
import { eventually, type RedisServer, startRedis } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";
import { ALL_PARTITIONS, joined, keysOf } from "./rows.ts";
import { BEGIN_REMOVAL, BLOCK_POLICY, END_REMOVAL } from "./scripts/policy-scripts.ts";

let server: RedisServer;
let store: Store;
let stores = 0;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  store = await open(`p${++stores}`);
});
afterEach(() => store.close());

const open = (prefix: string) => redisStore(`${server.url}?prefix=${prefix}`);

const exists = async (taskId: string) => (await store.query.get(TENANT, taskId)) !== null;

describe("the channels of wake-ups", () => {
  it("take what anybody publishes as a wake-up without content", async () => {
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([1]);
    const lane = ["t", "d", 0, 1, 5];
    const garbage = [
      Buffer.from("x"),
      Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff]),
      Buffer.alloc(20_000, 0x91),
      ...[[["t"]], [[lane, 1]], [["t", "d", 9, 1, 5]], ["text"], [[["t", "d", 0, -1, 5]]]].map(
        pack,
      ),
      ...Array.from({ length: 100 }, (_, seed) =>
        Buffer.from(String(Math.sin(seed)).slice(0, 1 + (seed % 16))),
      ),
    ];
    const client = new Redis(server.url);
    const tell = (channel: string, message: Buffer) =>
      client.publish(`p${stores}:${channel}`, message);
    // The store follows a channel soon.
    const isHeard = async () => {
      await tell("wake:1", Buffer.from("x"));
      return heard.length > 0;
    };
    await expect.poll(isHeard).toBe(true);
    heard.splice(0);
    for (const message of garbage) await tell("wake:1", message);
    for (const message of garbage) await tell("nodes", message);
    // A probe may arrive late.
    await expect.poll(() => heard.length).toBeGreaterThanOrEqual(2 * garbage.length);
    expect(new Set(heard)).toEqual(new Set(["unreadable"]));
    client.disconnect();
  });
});

describe("a Redis store", () => {
  it("loses no acknowledged task when the server is killed under load, and resumes by itself", async () => {
    const tasks = startLoad(store);
    for (let round = 0; round < 5; round++) {
      const before = tasks.acknowledged.length;
      await eventually("tasks are stored", async () => tasks.acknowledged.length > before + 20);
      await server.restart();
      const returnedMs = performance.now();
      const after = tasks.acknowledged.length;
      await eventually("tasks are stored again", async () => tasks.acknowledged.length > after);
      expect(performance.now() - returnedMs).toBeLessThan(5000);
    }
    await tasks.stop();
    expect(await lostOf(store, tasks.acknowledged)).toEqual([]);
  });

  it("rejects within five seconds while the server hangs, and then resumes", async () => {
    await store.commit(batch({ creates: [anywhere()] }));
    server.signal("SIGSTOP");
    const startedMs = performance.now();
    try {
      const calls = [
        store.commit(batch({ creates: [anywhere()] })),
        store.renew(report("node-1")),
        store.query.list(TENANT, {}, { limit: 9 }),
        store.clock(),
      ];
      const results = await Promise.allSettled(calls);
      expect(results.map(({ status }) => status)).toEqual(calls.map(() => "rejected"));
      // The alarm may be late on a busy machine.
      expect(performance.now() - startedMs).toBeLessThan(STORE_CALL_MS + 1000);
      await expect(store.commit(batch({ creates: [anywhere()] }))).rejects.toThrow();
    } finally {
      server.signal("SIGCONT");
    }
    const resumedMs = performance.now();
    await eventually("the store responds", async () =>
      store.commit(batch({ creates: [anywhere()] })).then(
        () => true,
        () => false,
      ),
    );
    expect(performance.now() - resumedMs).toBeLessThan(5000);
  });

  it("runs its scripts although the server has forgotten them", async () => {
    const first = anywhere();
    await store.commit(batch({ creates: [first] }));
    await server.command("script", "flush");
    const second = anywhere();
    await store.commit(batch({ creates: [second] }));
    expect(await exists(second.task.taskId)).toBe(true);
  });

  it("refuses creates while the memory is full, keeps everything, and then resumes", async () => {
    const claimed = create({}, { claimVersion: 0 });
    await store.commit(batch({ creates: [claimed] }));
    await server.command("config", "set", "maxmemory", "1mb");
    try {
      const refused = anywhere();
      const commit = store.commit(batch({ creates: [refused] }));
      await expect(commit).rejects.toMatchObject({
        name: "StoreFullError",
        message: expect.stringContaining("maxmemory"),
      });
      expect(await exists(refused.task.taskId)).toBe(false);
      expect(await exists(claimed.task.taskId)).toBe(true);
    } finally {
      await server.command("config", "set", "maxmemory", "0");
    }
    await store.commit(batch({ creates: [anywhere()] }));
  });

  it("writes no row while the memory is full", async () => {
    const row = { ...blankDestination(TENANT, DESTINATION), version: 1 };
    await store.commit(batch({ destinations: [{ row }] }));
    await server.command("config", "set", "maxmemory", "1mb");
    try {
      const error: unknown = await store
        .commit(batch({ destinations: [{ row: { ...row, version: 2 } }] }))
        .catch((one: unknown) => one);
      expect(error).toMatchObject({ name: "StoreFullError" });
    } finally {
      await server.command("config", "set", "maxmemory", "0");
    }
    expect(await store.getDestination(TENANT, DESTINATION)).toEqual(row);
  });

  it("rejects while another script blocks the server, and then resumes", async () => {
    await store.commit(batch({ creates: [anywhere()] }));
    await server.command("config", "set", "busy-reply-threshold", "50");
    const endless = server
      .command("eval", "while true do end", "0")
      .catch((error: unknown) => error);
    await eventually("the server is busy", async () =>
      store.clock().then(
        () => false,
        (error: unknown) => String(error).includes("BUSY"),
      ),
    );
    await expect(store.commit(batch({ creates: [anywhere()] }))).rejects.toThrow(/BUSY/u);
    await server.command("script", "kill");
    await endless;
    await store.commit(batch({ creates: [anywhere()] }));
  });

  it("tells listeners that wake-ups may be lost after its connection for them was lost", async () => {
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp));
    await server.command("client", "kill", "type", "pubsub");
    await expect.poll(() => heard).toEqual(["lost", "nodes-changed"]);
  });
});

describe("a removal of a policy that does not end", () => {
  const document = { version: 1, document: "{}", createdAt: T0 };
  const pinned = (policyId: string) => {
    const one = anywhere();
    return { ...one, task: { ...one.task, policyId, policyVersion: 1 } };
  };
  /** Its remover has crashed. Policies are blocked in all partitions. */
  const beginRemoval = async (policyId: string) => {
    const keys = keysOf(`p${stores}`);
    const id = joined(TENANT, policyId);
    const client = new Redis(server.url);
    const epoch = Number(await client.eval(BEGIN_REMOVAL.text, 1, keys.control, id, 10_000));
    expect(epoch).toBeGreaterThan(0);
    const isInline = policyId.startsWith(INLINE_PREFIX) ? 1 : 0;
    for (const partition of ALL_PARTITIONS) {
      await client.eval(BLOCK_POLICY.text, 1, keys.base(partition), id, epoch, isInline);
    }
    const end = () => client.eval(END_REMOVAL.text, 1, keys.control, id, epoch, isInline ? "" : T0);
    return { end, close: () => client.disconnect() };
  };

  it.each(["p", "inline.p"])(
    "is void once a create needs the policy %s, and no item of the commit waits or fails",
    async (policyId) => {
      await store.addPolicy({ tenantId: TENANT, policyId, ...document });
      const other = await open(`p${stores}`);
      await other.commit(batch({ creates: [anywhere()] }));
      const removal = await beginRemoval(policyId);
      const startedMs = performance.now();
      const creates = [anywhere(), pinned(policyId), pinned("unknown"), pinned(policyId)];
      const { creates: results } = await other.commit(batch({ creates }));
      expect(results.map(({ kind }) => kind)).toEqual([
        "created",
        "created",
        "unknown-policy",
        "created",
      ]);
      expect(performance.now() - startedMs).toBeLessThan(1000);
      expect(await removal.end()).toBe(0);
      expect(await store.getPolicy(TENANT, policyId)).toMatchObject({ removedAt: null });
      removal.close();
      await other.close();
    },
  );

  it("is not void because of creates with other policies", async () => {
    await store.addPolicy({ tenantId: TENANT, policyId: "p", ...document });
    await store.addPolicy({ tenantId: TENANT, policyId: "q", ...document });
    const removal = await beginRemoval("p");
    const { creates } = await store.commit(batch({ creates: [anywhere(), pinned("q")] }));
    expect(creates.map(({ kind }) => kind)).toEqual(["created", "created"]);
    expect(await removal.end()).toBe(1);
    const { creates: late } = await store.commit(batch({ creates: [pinned("p")] }));
    expect(late).toEqual([{ kind: "unknown-policy" }]);
    removal.close();
  });
});

describe("two Redis stores", () => {
  it("never claim a task twice", async () => {
    const other = await open(`p${stores}`);
    const creates = Array.from({ length: 400 }, () => anywhere());
    for (let at = 0; at < 400; at += 100) {
      await store.commit(batch({ creates: creates.slice(at, at + 100) }));
    }
    const claimed: string[] = [];
    const claimAll = async (one: Store, nodeId: string) => {
      for (let round = 0; round < 60; round++) {
        const claims = [claimOf("first", { partitions: partitionsOf(one), limit: 7 })];
        const result = await one.commit(batch({ nodeId, claims }));
        claimed.push(...(result.claims[0]?.tasks ?? []).map(({ taskId }) => taskId));
      }
    };
    await Promise.all([claimAll(store, "node-1"), claimAll(other, "node-2")]);
    expect(claimed.length).toBe(400);
    expect(new Set(claimed).size).toBe(400);
    await other.close();
  });

  it("never get more slots than the limit together", async () => {
    const other = await open(`p${stores}`);
    const shares = new Map<string, number>();
    const ask = async (one: Store, nodeId: string, wanted: number) => {
      const slots = { limit: 10, wanted, used: 0 };
      const { destinations } = await one.renew(
        report(nodeId, { destinations: [destinationReport({ slots })] }),
      );
      return [nodeId, destinations[0]?.slots ?? 0] as const;
    };
    for (let round = 0; round < 20; round++) {
      const wanted = [3 + (round % 7), 9 - (round % 7)] as const;
      const granted = await Promise.all([
        ask(store, "node-1", wanted[0]),
        ask(other, "node-2", wanted[1]),
      ]);
      for (const [nodeId, slots] of granted) shares.set(nodeId, slots);
      const sum = [...shares.values()].reduce((total, slots) => total + slots, 0);
      expect(sum).toBeLessThanOrEqual(10);
    }
    await other.close();
  });

  it("make no claim under an old row once the write of the new one is acknowledged", async () => {
    const other = await open(`p${stores}`);
    let version = 0;
    for (let round = 0; round < 10; round++) {
      const creates = Array.from({ length: 40 }, () => anywhere());
      await store.commit(batch({ creates }));
      const claims = [claimOf("first", { partitions: partitionsOf(store), version, limit: 5 })];
      let isAcknowledged = false;
      const row = { ...blankDestination(TENANT, DESTINATION), version: version + 1, pausedAt: T0 };
      const write = store.commit(batch({ destinations: [{ row }] })).then(() => {
        isAcknowledged = true;
      });
      for (let at = 0; at < 10; at++) {
        const isLate = isAcknowledged;
        const { claims: results } = await other.commit(batch({ nodeId: "node-2", claims }));
        if (!isLate) continue;
        expect(results[0]?.tasks).toEqual([]);
        expect(results[0]?.row).toEqual(row);
      }
      await write;
      version++;
    }
    await other.close();
  });
});
