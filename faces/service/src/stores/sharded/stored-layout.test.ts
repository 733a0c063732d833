/** Tests that a store with other shards than before is refused, with what differs. */
import { beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../model/store.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { batch, create, TENANT } from "../store.testing.ts";
import type { TenantShards } from "./shard-layout.ts";
import { assertLayout, assertUnsharded } from "./stored-layout.ts";

const NO_TENANTS: TenantShards = new Map();

describe("the layout of shards", () => {
  let stores: readonly [Store, Store, Store];
  let ids = 0;
  const open = () => memoryStore({ exclusive: false });
  const start = (list: readonly Store[], tenants = NO_TENANTS) => {
    const names = list.map((store) => `pg://${(stores as readonly Store[]).indexOf(store) + 1}`);
    return assertLayout({ stores: list, names, tenants, newId: () => `layout-${++ids}` });
  };
  beforeEach(() => {
    stores = [open(), open(), open()];
  });

  it("is stored at the first start, and accepted after that", async () => {
    await start(stores);
    await start(stores);
    await expect(assertUnsharded(stores[1], "pg://2")).rejects.toThrow(
      "the shards of the store differ: pg://2 is shard 2 of 3; list all 3",
    );
    await assertUnsharded(open(), "pg://x");
  });

  it("is the same for nodes that start at once", async () => {
    await Promise.all([start(stores), start(stores), start(stores)]);
    await start(stores);
  });

  it("refuses another order, and another number", async () => {
    const [one, two, three] = stores;
    await start(stores);
    await expect(start([two, one, three])).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("pg://2 is shard 2, but is listed as shard 1"),
    });
    await expect(start([one, two])).rejects.toThrow("pg://1 is one of 3 shards, but 2 are listed");
    await expect(start([one, two, three, open()])).rejects.toThrow("but 4 are listed");
  });

  it("refuses a shard of others, and a server whose data was lost", async () => {
    const [one, two, three] = stores;
    await start(stores);
    const others = [open(), open(), open()] as const;
    await start(others);
    await expect(start([one, others[1], three])).rejects.toThrow("belongs to other shards than");
    await expect(start([one, two, open()])).rejects.toThrow(
      "has no layout, but was shard 3 of 3; restore its data",
    );
  });

  it("is completed after a start that was interrupted", async () => {
    const [one, two, three] = stores;
    const broken = {
      ...two,
      documents: { ...two.documents, put: () => Promise.reject(new Error("down")) },
    };
    await expect(start([one, broken, three])).rejects.toThrow("down");
    await start(stores);
    await expect(assertUnsharded(three, "pg://3")).rejects.toThrow("shard 3 of 3");
  });

  it("refuses a store that has tasks and was used alone", async () => {
    await stores[2].commit(batch({ creates: [create()] }));
    await expect(start(stores)).rejects.toThrow("pg://3 has tasks of a store without shards");
  });

  it("lets a tenant get other shards only while it has no tasks", async () => {
    const on = (...shards: readonly number[]): TenantShards => new Map([[TENANT, shards]]);
    await start(stores, on(1));
    await start(stores, on(1, 2));
    await stores[1].commit(batch({ creates: [create()] }));
    await start(stores, on(1, 2));
    await expect(start(stores, on(0))).rejects.toThrow(
      'tenant "acme" has tasks on shards 2,3, so it cannot move to 1',
    );
    await expect(start(stores)).rejects.toThrow("so it cannot move to all");
  });
});
