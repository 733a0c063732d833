/**
 * Tests that the objects of every task share few hidden classes. In V8 an object that is built by
 * spread plus another field (`{ ...a, b }`) may get a new hidden class each time. That class lives
 * until the next full garbage collection and makes every read of the object slow.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { countClasses } from "../collections/hidden-classes.testing.ts";
import { notStarted } from "../deliver/attempt.ts";
import type { Batch, CommitResult } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { sqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import type { EngineEvent } from "./events.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-classes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TASKS = 60;

/** Runs tasks one at a time. Every third one fails first; half of them start at once. */
async function run() {
  const clock = virtualClock(T0);
  const inner = sqliteStore(join(folder, "redrive.db"));
  const batches: Batch[] = [];
  const results: CommitResult[] = [];
  const commit = async (batch: Batch) => {
    const result = await inner.commit(batch);
    batches.push(batch);
    results.push(result);
    return result;
  };
  const store: Store = { ...inner, commit };
  const document = JSON.stringify({ initialDelayMs: 10, jitterType: "NONE" });
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await store.addPolicy({ ...policy, document });
  const engine = await Engine.open({
    clock,
    random: seededRandom("classes"),
    store,
    nodeId: "node-1",
    deliver: ({ attemptNumber, ref }, _limits, done) => {
      const status = attemptNumber === 1 && Number(ref) % 3 === 0 ? 503 : 200;
      const result = { ...notStarted(statusOutcome(status), null), status };
      clock.alarm(5, () => done(result));
    },
  });
  const events: EngineEvent[] = [];
  engine.events.listen((event) => void events.push(event));
  await engine.start();
  for (let n = 0; n < TASKS; n++) {
    const task = pinnedTask({ scheduledAt: clock.now() + (n % 2) * 20 });
    engine.create(
      task,
      null,
      () => {},
      (error) => expect.unreachable(String(error)),
    );
    await clock.advance(50);
  }
  await engine.stop();
  await store.close();
  return { batches, results, events };
}

describe("the objects of every task", () => {
  it("share their hidden classes", async () => {
    const { batches, results, events } = await run();
    const ofType = (type: string) => events.filter((event) => event.type === type);
    const claimed = results.flatMap(({ claims }) => claims.flatMap((claim) => claim.tasks));
    const created = results.flatMap(({ creates }) => creates);
    const started = created.flatMap((one) =>
      one.kind === "created" && one.started !== null ? [one.started] : [],
    );
    const counted = {
      batches: batches.length,
      creates: batches.flatMap(({ creates }) => creates).length,
      claimed: claimed.length,
      started: started.length,
      succeeded: ofType("task.succeeded").length,
    };
    expect(Math.min(...Object.values(counted))).toBeGreaterThanOrEqual(TASKS / 2);
    const classes = {
      batches: countClasses(batches),
      creates: countClasses(batches.flatMap(({ creates }) => creates)),
      claimed: countClasses(claimed),
      started: countClasses(started),
      succeeded: countClasses(ofType("task.succeeded")),
      attempts: countClasses(ofType("attempt.started")),
    };
    const most = Math.max(...Object.values(classes));
    expect(most, JSON.stringify(classes)).toBeLessThanOrEqual(2);
  });
});
