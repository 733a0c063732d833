/** Tests that a PostgreSQL store loses nothing in a failover to a synchronous replica. */
// needs: postgres
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type ReplicatedPostgres,
  startReplicated,
} from "../../../../../test/servers/postgres-replica.ts";
import { lostOf, startLoad } from "../load.testing.ts";
import { postgresStore } from "./postgres-store.ts";

const TIMEOUT_MS = 60_000;

let servers: ReplicatedPostgres;
beforeAll(async () => {
  servers = await startReplicated();
});
afterAll(() => servers.stop());

it("loses no acknowledged task when a synchronous replica takes over, and resumes by itself", async () => {
  const store = await postgresStore(servers.url);
  const tasks = startLoad(store);
  const stored = () => tasks.acknowledged.length;
  await expect.poll(stored, { timeout: TIMEOUT_MS }).toBeGreaterThan(50);
  await servers.failOver();
  const before = stored();
  await expect.poll(stored, { timeout: TIMEOUT_MS }).toBeGreaterThan(before + 50);
  await tasks.stop();
  expect(await lostOf(store, tasks.acknowledged)).toEqual([]);
  await store.close();
});
