/** What a Redis store leaves of destinations that nothing uses, and of rows whose removal was cut off. */
// needs: redis
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../../model/document-table.ts";
import type { Store } from "../../model/store.ts";
import { removeUnused } from "../conformance-unused.testing.ts";
import { anywhere } from "../load.testing.ts";
import { batch, claimOf, create, DESTINATION, partitionsOf, T0, TENANT } from "../store.testing.ts";
import { pack } from "./message-pack.ts";
import { type RedisServer, startRedis } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";
import { ALL_PARTITIONS, joined, type Keys, keysOf, PARTITIONS } from "./rows.ts";
import { DROP_VERSIONS } from "./scripts/partition-scripts.ts";

const LATER = T0 + 1000;
const ID = joined(TENANT, DESTINATION);

let server: RedisServer;
let client: Redis;
let store: Store;
let prefix = "";
let keys: Keys;
let stores = 0;
beforeAll(async () => {
  server = await startRedis({ appendfsync: "everysec" });
  client = new Redis(server.url);
});
afterAll(async () => {
  client.disconnect();
  await server.stop();
});
beforeEach(async () => {
  prefix = `u${++stores}`;
  keys = keysOf(prefix);
  store = await open();
});
afterEach(() => store.close());

const open = () => redisStore(`${server.url}?prefix=${prefix}&durability=relaxed`);

/** Everything in a key of any type. */
async function contentOf(key: string): Promise<string> {
  const type = await client.type(key);
  const commands: Readonly<Record<string, () => Promise<unknown>>> = {
    hash: () => client.hgetallBuffer(key).then((all) => Object.entries(all).flat().map(String)),
    zset: () => client.zrange(key, "0", "-1"),
    set: () => client.smembers(key),
    list: () => client.lrange(key, 0, -1),
    string: () => client.get(key),
  };
  return String(await commands[type]?.());
}

/** The keys that have the name of the destination, or have it in a field or a value. */
async function placesOf(name: string): Promise<readonly string[]> {
  const all = await client.keys(`${prefix}:*`);
  const found: string[] = [];
  for (const key of all) if ((key + (await contentOf(key))).includes(name)) found.push(key);
  return found;
}

const versions = () =>
  Promise.all(ALL_PARTITIONS.map((one) => client.hget(`${keys.base(one)}:v`, ID)));

const rowOf = (version: number, fields: Partial<DestinationRow> = {}) => ({
  ...blankDestination(TENANT, DESTINATION, version),
  ...fields,
});

const write = (version: number, fields: Partial<DestinationRow> = {}) =>
  store.commit(batch({ destinations: [{ row: rowOf(version, fields) }] }));

/** A node that knows no row wants to claim a new task. */
async function claimBlank() {
  const [result] = (await store.commit(batch({ creates: [create({}, { claimVersion: 0 })] })))
    .creates;
  return result?.kind === "created" ? result : undefined;
}

describe("a destination that nothing uses any more", () => {
  it("leaves nothing in the store", async () => {
    const creates = Array.from({ length: 40 }, () => anywhere());
    await store.commit(batch({ creates }));
    await write(1, { breakerState: "OPEN", openUntil: T0 + 5, openCount: 1 });
    await write(2);
    const guards = { kind: GUARD_DOCUMENT, tenantId: TENANT, id: DESTINATION, text: "{}" };
    await store.commit(batch({ documents: [guards] }));
    const cancels = creates.map(({ task }) => task);
    await store.commit(batch({ cancels }));
    await removeUnused(store, LATER);
    expect(await versions()).toEqual(ALL_PARTITIONS.map(() => "2"));
    await store.sweep({ now: LATER, endedBefore: LATER, deadBefore: LATER, limit: 100 });
    expect((await placesOf(DESTINATION)).length).toBeGreaterThan(PARTITIONS);
    await removeUnused(store, LATER);
    expect(await placesOf(DESTINATION)).toEqual([]);
  });
});

describe("versions of a removed row that are left in partitions", () => {
  beforeEach(async () => {
    await write(1);
    await write(2);
    await removeUnused(store, LATER);
    // As after a crash in the middle, or if a script that raises a version arrives late.
    for (const partition of ALL_PARTITIONS) {
      await client.hset(`${keys.base(partition)}:v`, ID, 1 + (partition % 2));
    }
  });

  it("refuse a claim once, and are forgotten then", async () => {
    const odd = 0x01;
    const taskId = `01900000-0000-7000-80${odd.toString(16).padStart(2, "0")}-000000000001`;
    const creates = [create({ taskId }, { claimVersion: 0 })];
    const { creates: results } = await store.commit(batch({ creates }));
    expect(results).toEqual([{ kind: "created", started: null, row: rowOf(2) }]);
    expect(await versions()).toEqual(ALL_PARTITIONS.map(() => null));
    expect((await claimBlank())?.started).not.toBeNull();
    expect(await store.getDestination(TENANT, DESTINATION)).toBeNull();
  });

  it("are found one partition per round", async () => {
    for (let round = 0; round < PARTITIONS; round++) await removeUnused(store, LATER);
    expect(await placesOf(DESTINATION)).toEqual([]);
  });

  it("are found without a claim, but not those of a row that was written since", async () => {
    await write(3, { pausedAt: T0 });
    for (let round = 0; round < PARTITIONS; round++) await removeUnused(store, LATER);
    expect(await versions()).toEqual(ALL_PARTITIONS.map(() => "3"));
    expect((await claimBlank())?.row).toEqual(rowOf(3, { pausedAt: T0 }));
  });
});

describe("a script that makes partitions forget a version", () => {
  it("keeps that of a row that was written meanwhile", async () => {
    await write(1);
    await write(2);
    const bases = ALL_PARTITIONS.map((one) => keys.base(one));
    const names = [...bases, `${keys.control}:m`];
    await client.eval(DROP_VERSIONS.text, names.length, ...names, pack([[ID, 1]]));
    expect(await versions()).toEqual(ALL_PARTITIONS.map(() => "2"));
    await client.eval(DROP_VERSIONS.text, names.length, ...names, pack([[ID, 2]]));
    expect(await versions()).toEqual(ALL_PARTITIONS.map(() => null));
  });
});

describe("a row", () => {
  it("stays while a partition may not know its version", async () => {
    await write(1);
    await client.zadd(`${keys.control}:ru`, 0, joined(ID, "1"));
    await removeUnused(store, LATER);
    expect(await store.getDestination(TENANT, DESTINATION)).toEqual(rowOf(1));
    await client.zrem(`${keys.control}:ru`, joined(ID, "1"));
    await removeUnused(store, LATER);
    expect(await store.getDestination(TENANT, DESTINATION)).toBeNull();
  });

  it("is paused for all nodes once that is acknowledged, while others are removed", async () => {
    const [other, remover] = await Promise.all([open(), open()]);
    let isOver = false;
    const removing = (async () => {
      while (!isOver) await remover.removeUnused({ now: LATER, limit: 100 });
    })();
    let version = 0;
    const seen = new Set([0]);
    /** Writes over whatever is stored, as a user does. */
    const change = async (fields: Partial<DestinationRow>) => {
      for (;;) {
        const [refusal = null] = (await write(version + 1, fields)).destinations;
        version = refusal === null ? version + 1 : refusal.version;
        seen.add(version);
        if (refusal === null) return;
      }
    };
    for (let round = 0; round < 40; round++) {
      await change({ pausedAt: T0 });
      const old = [...seen].filter((one) => one !== version).slice(-4);
      const creates = old.flatMap((one) =>
        Array.from({ length: 4 }, () => ({ ...anywhere(), claimVersion: one })),
      );
      const partitions = partitionsOf(store);
      const claims = old.map((one) => claimOf("first", { partitions, version: one }));
      const result = await other.commit(batch({ nodeId: "node-2", creates, claims }));
      const started = result.creates.map((one) => one.kind === "created" && one.started !== null);
      expect(started).toEqual(creates.map(() => false));
      expect(result.claims.flatMap(({ tasks }) => tasks)).toEqual([]);
      await other.commit(batch({ cancels: creates.map(({ task }) => task) }));
      await other.sweep({ now: LATER, endedBefore: LATER, deadBefore: LATER, limit: 1000 });
      await change({});
    }
    isOver = true;
    await removing;
    expect(seen.size).toBeGreaterThan(80);
    await Promise.all([other.close(), remover.close()]);
  });
});
