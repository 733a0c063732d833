/** Tests that the row of a destination is not written between a claim and its commit. */
// needs: postgres
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { blankDestination } from "../../model/destination-row.ts";
import { batch, claimOf, create, DESTINATION, TENANT } from "../store.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";

const server = testServer();

const DOCUMENT = { kind: "blocked", tenantId: TENANT, id: "one", text: "{}" };

it("acknowledges a pause only after the claims that began before it", async () => {
  const url = await server.nextUrl();
  const [claimer, pauser] = [await postgresStore(url), await postgresStore(url)];
  await claimer.commit(batch({ creates: [create()] }));
  await claimer.commit(batch({ documents: [DOCUMENT] }));
  const schema = new URL(url).searchParams.get("schema");
  // The commit of the claim waits for this transaction, after it has claimed.
  await server.run("BEGIN");
  await server.run(`UPDATE ${schema}.documents SET text = '{"a":1}'`);
  const order: string[] = [];
  const claimed = claimer
    .commit(batch({ claims: [claimOf("first")], documents: [DOCUMENT] }))
    .finally(() => order.push("claim"));
  await waiting(1, order);
  const row = { ...blankDestination(TENANT, DESTINATION), version: 1, pausedAt: 1 };
  const paused = pauser
    .commit(batch({ destinations: [{ row }] }))
    .finally(() => order.push("pause"));
  await waiting(2, order);
  // The pause waits for the claim, which has not ended.
  expect(order).toEqual([]);
  await server.run("ROLLBACK");
  const [{ claims }] = await Promise.all([claimed, paused]);
  expect(claims[0]?.tasks).toHaveLength(1);
  await Promise.all([claimer.close(), pauser.close()]);
});

/** Resolves once that many statements wait for a lock, or one of them has ended. */
async function waiting(count: number, ended: readonly string[]): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const rows = await server.run(
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'redrive'",
    );
    if (rows.length >= count || ended.length > 0) return;
    await sleep(5);
  }
  throw new Error(`${count} statements do not wait`);
}
