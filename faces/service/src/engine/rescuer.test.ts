/** Tests that a claim of a lost node is rescued once, however slow the store is. */
import { expect, it } from "vitest";
import type { Batch, Settle } from "../model/batch.ts";
import type { MemoryStore } from "../stores/memory/memory-store.ts";
import { batch, claimOf, create, DESTINATION, T0, TENANT } from "../stores/store.testing.ts";
import { setup } from "./engine.testing.ts";

const MINUTE_MS = 60_000;

/**
 * A rescued task is not attempted again during a test, but soon after: later tasks are not recorded
 * in their lane.
 */
const POLICY = {
  initialDelayMs: 32 * MINUTE_MS,
  jitterType: "NONE",
  totalBudgetMs: 86_400_000,
} as const;

/** Claims tasks in the name of a node that is gone. */
async function claimForLostNode(store: MemoryStore, policyIds: readonly string[]): Promise<void> {
  const creates = policyIds.map((policyId) => create({ policyId, policyVersion: 1 }));
  const claims = [claimOf("first", { limit: creates.length })];
  await store.commit(batch({ nodeId: "lost", now: T0, creates, claims }));
}

/** An engine that is stopped, and what the next one settles on the same store. */
async function stopped() {
  const tools = await setup(POLICY);
  const { clock, engine, store } = tools;
  await Promise.all([engine.stop(0), clock.advance(1)]);
  const settles: Settle[] = [];
  const { commit } = store;
  /** Until it resolves, no commit is made. */
  const held = { until: Promise.resolve() };
  Object.assign(store, {
    async commit(next: Batch) {
      settles.push(...next.settles);
      await held.until;
      return commit(next);
    },
  });
  const taskIds = () => settles.map(({ taskId }) => taskId);
  return { ...tools, held, taskIds };
}

function lock() {
  let open = () => {};
  const until = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { until, open: () => open() };
}

it("settles a claim once while the commit takes several rounds of maintenance", async () => {
  const { clock, store, boot, held, taskIds } = await stopped();
  await claimForLostNode(store, ["background"]);
  const { until, open } = lock();
  held.until = until;
  const node = await boot("node-2");
  await clock.advance(7000);
  open();
  await clock.advance(3000);
  expect(taskIds()).toHaveLength(1);
  expect(node.destination(TENANT, DESTINATION).users).toBe(0);
});

it("keeps the destination of a claim until its settle is committed", async () => {
  const { clock, store, boot, held } = await stopped();
  await claimForLostNode(store, ["background"]);
  const { until, open } = lock();
  held.until = until;
  const node = await boot("node-2");
  await clock.advance(1);
  const before = node.destination(TENANT, DESTINATION);
  await clock.advance(30 * MINUTE_MS);
  expect(node.destination(TENANT, DESTINATION)).toBe(before);
  open();
  await clock.advance(10);
  expect(before.lanes.retry.dueAt).toBeLessThan(Number.POSITIVE_INFINITY);
});

it("settles a claim once if the next slice is read while its policy is read", async () => {
  const { clock, store, boot, taskIds } = await stopped();
  const policy = { tenantId: TENANT, policyId: "slow", version: 1, createdAt: T0 };
  await store.addPolicy({ ...policy, document: JSON.stringify(POLICY) });
  const { getPolicy } = store;
  const { until, open } = lock();
  Object.assign(store, {
    async getPolicy(...ref: Parameters<typeof getPolicy>) {
      if (ref[1] === "slow") await until;
      return getPolicy(...ref);
    },
  });
  // A full slice of 128 claims, and more: the first one is settled while the second one waits.
  await claimForLostNode(store, ["background", ...Array.from({ length: 139 }, () => "slow")]);
  const node = boot("node-2");
  await clock.advance(100);
  open();
  await clock.advance(10_000);
  await node;
  expect(new Set(taskIds()).size).toBe(140);
  expect(taskIds()).toHaveLength(140);
});
