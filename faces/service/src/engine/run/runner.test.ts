/** Tests of the limits under which an attempt runs. */
import { seededRandom, virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { notStarted } from "../../deliver/attempt-result.ts";
import { memoryStore } from "../../stores/memory/memory-store.ts";
import { pinnedTask, T0, TENANT } from "../../stores/store.testing.ts";
import { Engine } from "../engine.ts";
import type { Deliver } from "./deliver-function.ts";

/** The limits of the first attempt of a task with that deadline. */
async function limitsWith(deadlineAt: number | null): Promise<Parameters<Deliver>[1] | undefined> {
  const clock = virtualClock(T0);
  const store = memoryStore();
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  const document = { attemptTimeoutMs: 10_000, connectTimeoutMs: 3000, totalBudgetMs: 60_000 };
  await store.addPolicy({ ...policy, document: JSON.stringify(document) });
  const limits: Parameters<Deliver>[1][] = [];
  const engine = await Engine.open({
    clock,
    random: seededRandom("limits"),
    store,
    nodeId: "node-1",
    deliver: (_, given, done) => {
      limits.push(given);
      done(notStarted({ kind: "success" }, null));
    },
  });
  await engine.start();
  const nothing = () => {};
  engine.create(pinnedTask({ createdAt: T0, scheduledAt: T0, deadlineAt }), null, nothing, nothing);
  await clock.advance(10);
  return limits[0];
}

it("an attempt takes no longer than its task has left", async () => {
  const full = { attemptTimeoutMs: 10_000, connectTimeoutMs: 3000 };
  expect(await limitsWith(null)).toMatchObject(full);
  expect(await limitsWith(T0 + 30_000)).toMatchObject(full);
  const short = await limitsWith(T0 + 500);
  expect(short).toMatchObject({ attemptTimeoutMs: 500, connectTimeoutMs: 500 });
});
