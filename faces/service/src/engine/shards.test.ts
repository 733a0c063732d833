/** Tests of a fleet on a store with several shards: guards hold over all of them, and each fails alone. */
import { statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { Store } from "../model/store.ts";
import { DESTINATION, TENANT } from "../stores/store.testing.ts";
import type { Engine } from "./engine.ts";
import { fleet } from "./fleet.testing.ts";

const unlimited = { retryBudget: false, breaker: false } as const;

const shardOf = ({ shards }: Store, taskId: string) => shards?.ofTask(taskId) ?? 0;

/** A key whose tasks are on that shard. */
function keyOn(shard: number, engine: Engine, store: Store, from = 0): string {
  for (let n = from; ; n++) {
    const byte = engine.partitionByte(TENANT, `key-${n}`) ?? 0;
    const id = `00000000-0000-7000-80${byte.toString(16).padStart(2, "0")}-000000000000`;
    if (shardOf(store, id) === shard) return `key-${n}`;
  }
}

describe("two nodes on three shards", () => {
  it("send every task once, and use all shards", async () => {
    const { clock, store, engines, enqueue, sent } = await fleet(["node-1", "node-2"], {
      shards: 3,
    });
    const ids: string[] = [];
    for (let n = 0; n < 90; n++) {
      const scheduledAt = clock.now() + 50;
      const key = n % 2 === 0 ? { idempotencyKey: `key-${n}` } : {};
      ids.push(await enqueue(engines[n % 2] as Engine, { scheduledAt, ...key }));
      await clock.advance(10);
    }
    await clock.advance(1500);
    expect(sent.map(({ taskId }) => taskId).sort()).toEqual([...ids].sort());
    expect(new Set(ids.map((id) => shardOf(store, id)))).toEqual(new Set([0, 1, 2]));
    expect(new Set(sent.map(({ nodeId }) => nodeId)).size).toBe(2);
    expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 90 });
  });

  it("take over the tasks of a node that dies", async () => {
    const { clock, engines, enqueue, sent, kill } = await fleet(["node-1", "node-2"], {
      shards: 3,
    });
    const [, second] = engines as [Engine, Engine];
    for (let n = 0; n < 12; n++) {
      await enqueue(second, { scheduledAt: clock.now() + 1000 });
      await clock.advance(60);
    }
    kill("node-2");
    await clock.advance(15_000);
    expect(sent.map(({ nodeId }) => nodeId)).toEqual(Array.from({ length: 12 }, () => "node-1"));
  });
});

describe("the guards of a destination", () => {
  it("limit the attempts at once over all shards and nodes", async () => {
    const document = { ...unlimited, concurrency: { max: 4, algorithm: "FIXED" } };
    const options = { document, durationMs: 100, shards: 2 };
    const { clock, store, engines, enqueue, sent, maxInFlight } = await fleet(
      ["node-1", "node-2"],
      options,
    );
    const ids: string[] = [];
    for (let n = 0; n < 40; n++) {
      ids.push(await enqueue(engines[n % 2] as Engine, { idempotencyKey: `key-${n}` }));
    }
    await clock.advance(10_000);
    expect(sent).toHaveLength(40);
    expect(new Set(ids.map((id) => shardOf(store, id))).size).toBe(2);
    expect(maxInFlight()).toBeLessThanOrEqual(4);
    expect(maxInFlight()).toBeGreaterThan(2);
  });

  it("pause every shard for every node before the pause is acknowledged", async () => {
    const { clock, store, memories, engines, enqueue, sent } = await fleet(["node-1", "node-2"], {
      shards: 2,
    });
    const [first, second] = engines as [Engine, Engine];
    // The other node knows the destination, and the version of its row.
    for (let n = 0; n < 8; n++) await enqueue(second, { idempotencyKey: `warm-${n}` });
    await clock.advance(2000);
    const pause = first.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() });
    await clock.advance(1);
    const row = await pause;
    const copies = memories.map((memory) => memory.peekDestination(TENANT, DESTINATION));
    expect(copies).toEqual([row, row]);
    const before = sent.length;
    for (const shard of [0, 1]) {
      await enqueue(second, { idempotencyKey: keyOn(shard, second, store) });
    }
    await clock.advance(5000);
    expect(sent).toHaveLength(before);
    const resume = second.changeDestination(TENANT, DESTINATION, { pausedAt: null });
    await clock.advance(3000);
    await resume;
    expect(sent).toHaveLength(before + 2);
  });

  it("open the circuit on all shards, and one probe closes it", async () => {
    const document = { retryBudget: false, breaker: { minCalls: 10, openMs: 5000 } };
    const options = { document, outcome: statusOutcome(503), shards: 2 };
    const { clock, memories, engines, enqueue, sent } = await fleet(["node-1", "node-2"], options);
    for (let n = 0; n < 40; n++) {
      await enqueue(engines[n % 2] as Engine, { idempotencyKey: `key-${n}` });
    }
    await clock.advance(3000);
    const rows = memories.map((memory) => memory.peekDestination(TENANT, DESTINATION));
    expect(rows.map((row) => row?.breakerState)).toEqual(["OPEN", "OPEN"]);
    expect(rows[0]).toEqual(rows[1]);
    const openUntil = rows[0]?.openUntil ?? 0;
    const probesFrom = sent.length;
    await clock.advance(openUntil - clock.now() + 1500);
    // Of two nodes and two shards, one probes.
    expect(sent.slice(probesFrom)).toHaveLength(1);
  });
});

describe("a shard that fails", () => {
  it.each([0, 1])(
    "stops only its own tasks, and continues without a restart (%i)",
    async (dead) => {
      const { clock, store, down, engines, enqueue, sent } = await fleet(["node-1", "node-2"], {
        shards: 2,
      });
      const [first, second] = engines as [Engine, Engine];
      const scheduledAt = clock.now() + 40_000;
      const early = await enqueue(first, {
        idempotencyKey: keyOn(dead, first, store),
        scheduledAt,
      });
      down.add(dead);
      await clock.advance(2000);
      const refused = enqueue(first, { idempotencyKey: keyOn(dead, first, store, 100) });
      await expect(refused).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      // For longer than a lease.
      for (let n = 0; n < 20; n++) {
        await enqueue(second);
        await enqueue(first, { idempotencyKey: keyOn(1 - dead, first, store, 1000 * n) });
        await enqueue(first, { destination: `new-${n}` });
        await clock.advance(1000);
      }
      await clock.advance(5000);
      expect(sent).toHaveLength(60);
      expect(sent.every(({ taskId }) => shardOf(store, taskId) === 1 - dead)).toBe(true);
      down.delete(dead);
      await clock.advance(30_000);
      expect(sent.map(({ taskId }) => taskId)).toContain(early);
      await enqueue(first, { idempotencyKey: keyOn(dead, first, store, 5000) });
      await clock.advance(1000);
      expect(sent).toHaveLength(62);
    },
  );

  it("repeats no attempt that starts after its return", async () => {
    const { clock, store, down, engines, enqueue, sent } = await fleet(["node-1", "node-2"], {
      durationMs: 3000,
      shards: 2,
    });
    const [first] = engines as [Engine];
    down.add(1);
    // For longer than a lease.
    await clock.advance(15_000);
    down.delete(1);
    const accepted: string[] = [];
    for (let n = 0; n < 30; n++) {
      const idempotencyKey = keyOn(1, first, store, 1000 * n);
      await enqueue(first, { idempotencyKey }).then(
        (taskId) => accepted.push(taskId),
        () => {},
      );
      await clock.advance(100);
    }
    await clock.advance(60_000);
    expect(accepted.length).toBeGreaterThan(10);
    expect(sent.map(({ taskId }) => taskId).sort()).toEqual([...accepted].sort());
  });

  it("gets the rows that were written meanwhile", async () => {
    const document = { retryBudget: false, breaker: { minCalls: 5, openMs: 60_000 } };
    const options = { document, outcome: statusOutcome(503), shards: 2 };
    const { clock, store, memories, down, engines, enqueue } = await fleet(["node-1"], options);
    const [engine] = engines as [Engine];
    const home = store.shards?.homeOf(TENANT, DESTINATION) ?? 0;
    down.add(1 - home);
    await clock.advance(1500);
    for (let n = 0; n < 10; n++) {
      await enqueue(engine, { idempotencyKey: keyOn(home, engine, store, 1000 * n) });
    }
    await clock.advance(3000);
    const stateOn = (shard: number) =>
      memories[shard]?.peekDestination(TENANT, DESTINATION)?.breakerState;
    expect([stateOn(home), stateOn(1 - home)]).toEqual(["OPEN", "CLOSED"]);
    // A user is told that the pause is not everywhere.
    const pause = engine.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() });
    const refused = expect(pause).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await clock.advance(10);
    await refused;
    down.delete(1 - home);
    await clock.advance(3000);
    expect(stateOn(1 - home)).toBe("OPEN");
  });
});
