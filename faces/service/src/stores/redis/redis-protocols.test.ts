/** What a Redis store does between the steps of a write that touches several servers. */
// needs: redis
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { blankDestination } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import { isEnded } from "../../model/task.ts";
import { anywhere } from "../load.testing.ts";
import { batch, claimOf, create, DESTINATION, report, T0, TENANT } from "../store.testing.ts";
import { type Link, openLink } from "./connection/link.ts";
import { parseRedisUrl } from "./connection/redis-url.ts";
import { DestinationTable } from "./destination-table.ts";
import { eventually, type ServerGroup, startCluster } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";
import { keysOf } from "./rows.ts";

let cluster: ServerGroup;
let store: Store;
let link: Link;
let stores = 0;
const prefix = () => `p${stores}`;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());
beforeEach(async () => {
  stores++;
  const url = `${cluster.url}?prefix=${prefix()}`;
  store = await redisStore(url);
  link = await openLink(parseRedisUrl(url));
});
afterEach(async () => {
  await store.close();
  link.close();
});

const rowOf = (version: number) => ({
  ...blankDestination(TENANT, DESTINATION),
  version,
  pausedAt: T0,
});

/** Claims one task; returns the result. */
async function claim(version: number) {
  const claims = [claimOf("first", { limit: 1, version })];
  return (await store.commit(batch({ claims }))).claims[0];
}

describe("a row whose writer crashed before all partitions knew it", () => {
  beforeEach(async () => {
    await store.commit(batch({ creates: Array.from({ length: 5 }, () => create()) }));
    await store.commit(batch({ destinations: [{ row: rowOf(1) }] }));
    await new DestinationTable(link, keysOf(prefix())).write([rowOf(2)]);
  });

  it("refuses old claims once a node has renewed its lease", async () => {
    expect((await claim(1))?.tasks).toHaveLength(1);
    // A node repairs what has been incomplete for a second, by the clock of the server.
    const writtenAt = await store.clock();
    await eventually("a second is over", async () => (await store.clock()) > writtenAt + 1000);
    await store.renew(report("node-1"));
    await eventually("the old version is refused", async () => (await claim(1))?.row !== null);
    expect(await claim(1)).toMatchObject({ tasks: [], row: rowOf(2) });
    expect((await claim(2))?.tasks).toHaveLength(1);
  });

  it("refuses old claims once another write was refused because of it", async () => {
    const { destinations } = await store.commit(batch({ destinations: [{ row: rowOf(2) }] }));
    expect(destinations).toEqual([rowOf(2)]);
    expect(await claim(1)).toMatchObject({ tasks: [], row: rowOf(2) });
  });

  it("is repaired by a claim under the new version", async () => {
    expect(await claim(2)).toMatchObject({ tasks: [], row: rowOf(2) });
    expect((await claim(2))?.tasks).toHaveLength(1);
    expect(await claim(1)).toMatchObject({ tasks: [], row: rowOf(2) });
  });
});

it("a row that its server has lost gets a version that all nodes must read", async () => {
  await store.commit(batch({ creates: [create()], destinations: [{ row: rowOf(1) }] }));
  await store.commit(batch({ destinations: [{ row: rowOf(2) }] }));
  const { control } = keysOf(prefix());
  await link.call("del", `${control}:r`);
  const lost = { ...blankDestination(TENANT, DESTINATION), version: 3 };
  // A node that has read the lost row.
  expect(await claim(0)).toMatchObject({ tasks: [], row: lost });
  // A node that still knows the old one.
  expect(await claim(2)).toMatchObject({ tasks: [], row: lost });
  expect((await claim(3))?.tasks).toHaveLength(1);
});

it("a policy is removed only while no task uses it, however many nodes create tasks", async () => {
  const other = await redisStore(`${cluster.url}?prefix=${prefix()}`);
  let version = 0;
  for (let round = 0; round < 8; round++) {
    version++;
    const policy = { tenantId: TENANT, policyId: "p", version, document: "{}", createdAt: T0 };
    expect(await store.addPolicy(policy)).toBe(true);
    const pinned = () => {
      const one = anywhere();
      return { ...one, task: { ...one.task, policyId: "p", policyVersion: version } };
    };
    const created: string[] = [];
    const makeTasks = async (target: Store) => {
      for (let at = 0; at < 10; at++) {
        const make = pinned();
        const { creates } = await target.commit(batch({ creates: [make] }));
        if (creates[0]?.kind === "created") created.push(make.task.taskId);
        if (at % 2 === 1) await target.commit(batch({ cancels: [make.task] }));
      }
    };
    const removal = sleep(round).then(() => other.removePolicy(TENANT, "p", T0));
    const [isRemoved] = await Promise.all([removal, makeTasks(store), makeTasks(other)]);
    const tasks = await Promise.all(created.map((taskId) => store.query.get(TENANT, taskId)));
    const open = tasks.filter((task) => task !== null && !isEnded(task.status));
    if (isRemoved) expect(open).toEqual([]);
    else expect(open.length).toBeGreaterThan(0);
    await store.commit(batch({ cancels: open.flatMap((task) => task ?? []) }));
    if (!isRemoved) expect(await store.removePolicy(TENANT, "p", T0)).toBe(true);
    const { creates } = await store.commit(batch({ creates: [pinned()] }));
    expect(creates).toEqual([{ kind: "unknown-policy" }]);
  }
  await other.close();
});
