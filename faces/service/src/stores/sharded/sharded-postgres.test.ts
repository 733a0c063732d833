/**
 * Runs the conformance suite on two PostgreSQL servers as shards of one store. `npm test` runs only what
 * needs real servers, calls at the same time, because each store takes a second to create. The whole
 * suite runs on two shards in memory, and on the servers with
 * `REDRIVE_FAULT_ROUNDS=2 npm test -- faces/service/src/stores/sharded`.
 */
// needs: postgres
import { afterEach, beforeEach, describe } from "vitest";
import type { Store } from "../../model/store.ts";
import { storeConformance } from "../conformance.testing.ts";
import { parallelConformance } from "../conformance-parallel.testing.ts";
import { testServer } from "../postgres/postgres-server.testing.ts";
import { TENANT } from "../store.testing.ts";
import { shardedStore } from "./sharded-store.ts";

const IS_LONG = Number(process.env["REDRIVE_FAULT_ROUNDS"] ?? 1) > 1;

const servers = [testServer(), testServer()];

/** In this order, the home of the usual destination is the first shard, whose clock is the reference. */
const tenants = new Map([[TENANT, [1, 0]]]);

const open = async () =>
  shardedStore(await Promise.all(servers.map((server) => server.nextStore())), { tenants });

if (IS_LONG) {
  const skips = { transfer: "export and import refuse shards" };
  storeConformance("two PostgreSQL servers", open, skips);
} else {
  describe("two PostgreSQL servers", () => {
    let store: Store;
    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.close());
    parallelConformance(() => store);
  });
}
