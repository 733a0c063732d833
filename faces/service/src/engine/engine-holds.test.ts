/** Tests that guards hold a destination, and release it as soon as they can. */
import { classifyOutcome, resolvePolicy, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DESTINATION, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";

/** Every first attempt fails until the breaker of the destination opens. */
async function opened(engine: Awaited<ReturnType<typeof setup>>) {
  const { clock, enqueue, sent, store } = engine;
  // More than the default limit of 64.
  for (let n = 0; n < 100; n++) enqueue();
  await clock.advance(1);
  const isOpen = async () =>
    (await store.getDestination(TENANT, DESTINATION))?.breakerState === "OPEN";
  while (!(await isOpen())) {
    for (const { finish } of sent) finish(FAILED);
    await clock.advance(1);
  }
  for (const { finish } of sent) finish(FAILED);
  await clock.advance(1);
  return sent.length;
}

describe("a destination", () => {
  it("continues as soon as the probe of its breaker has succeeded", async () => {
    const engine = await setup({ maxAttempts: 1 });
    const { clock, sent } = engine;
    const before = await opened(engine);
    while (sent.length === before) await clock.advance(100);
    sent[before]?.finish(OK);
    await clock.advance(5);
    expect(sent.length).toBeGreaterThan(before + 1);
  });

  it("keeps its circuit open when its document changes", async () => {
    const engine = await setup({ maxAttempts: 1 });
    const { clock, sent } = engine;
    const before = await opened(engine);
    const document = JSON.stringify({ concurrency: { max: 8 } });
    await engine.engine.changeDestination(TENANT, DESTINATION, { document });
    await clock.advance(1000);
    expect(sent.length).toBe(before);
    await clock.advance(6000);
    expect(sent.length).toBe(before + 1);
  });

  it("gives no slot of its rate limit to tasks whose time is over", async () => {
    const { clock, engine, enqueue, sent, get } = await setup({ totalBudgetMs: 5000 });
    const document = JSON.stringify({ rate: { perSecond: 1, burst: 1 } });
    await engine.changeDestination(TENANT, DESTINATION, { document, pausedAt: clock.now() });
    const old = Array.from({ length: 30 }, () => enqueue().task.taskId);
    await clock.advance(6000);
    const { task } = enqueue();
    await engine.changeDestination(TENANT, DESTINATION, { pausedAt: null });
    await clock.advance(1000);
    const ended = await Promise.all(old.map(get));
    const reason = "held";
    const lastError = "held by a pause until its time was over";
    expect(ended).toMatchObject(old.map(() => ({ reason, lastError, attemptNumber: 0 })));
    expect(sent.map((one) => one.task.taskId)).toEqual([task.taskId]);
  });
});

describe("a task", () => {
  it("is not treated as poison because the service was stopped during its attempts", async () => {
    const tools = await setup({ totalBudgetMs: 3_600_000 });
    const { clock, engine, boot, enqueue, sent, store, get } = tools;
    const { task } = enqueue();
    await clock.advance(1);
    let running = engine;
    for (const nodeId of ["node-2", "node-3", "node-4"]) {
      await Promise.all([running.stop(0), clock.advance(5000)]);
      running = await boot(nodeId);
      await clock.advance(60_000);
    }
    expect(sent).toHaveLength(4);
    expect(await get(task.taskId)).toMatchObject({ status: "IN_FLIGHT", attemptNumber: 4 });
    sent[3]?.finish(OK);
    await clock.advance(1);
    expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED" });
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 10 });
    expect(attempts[0]?.errorMessage).toMatch(/^the service aborted the attempt/u);
  });
});

describe("claims of a commit whose result was lost", () => {
  it("are released, however many others are under way", async () => {
    const { clock, enqueue, sent, store } = await setup({ attemptTimeoutMs: 600_000 });
    for (let n = 0; n < 200; n++) enqueue({ destination: `slow-${n % 20}` });
    await clock.advance(1);
    expect(sent).toHaveLength(200);
    const { commit } = store;
    store.commit = async (batch) => {
      store.commit = commit;
      await commit(batch);
      throw new Error("the answer was lost");
    };
    const { task, created } = enqueue({ destination: "other" });
    await Promise.all([expect(created).rejects.toThrow("the answer was lost"), clock.advance(1)]);
    await clock.advance(5000);
    expect(sent.slice(200).map((one) => one.task.taskId)).toEqual([task.taskId]);
  });
});

describe("an attempt whose claim is being stored", () => {
  const NOW = 1_000_000;
  const key = { tenantId: TENANT, name: DESTINATION };
  const held = () => {
    const destination = new DestinationRuntime(seededRandom(1), key, NOW, undefined);
    const [first, second] = [
      destination.takePermit(false, NOW),
      destination.takePermit(false, NOW),
    ];
    if (!first || !second) throw new Error("no permit was to be had");
    return { destination, first, second };
  };

  it("is not sent once the destination has sent a Retry-After", () => {
    const { destination, first, second } = held();
    const asks = { kind: "status", status: 429, retryAfterMs: 5000 } as const;
    destination.recordOutcome(
      first,
      NOW + 3,
      resolvePolicy({}),
      asks,
      classifyOutcome(resolvePolicy({}), asks),
      3,
    );
    expect(destination.maySend(second, NOW + 4, false)).toBe(false);
    expect(destination.maySend(second, NOW + 5003, false)).toBe(true);
  });

  it("keeps the other nodes out as a probe, until its permit is returned", () => {
    const { destination, first, second } = held();
    const refused = { kind: "error", errorClass: "connect", sent: false } as const;
    for (const permit of [first, second]) destination.returnPermit(permit, NOW);
    for (let n = 0; n < 20; n++) {
      const permit = destination.takePermit(false, NOW);
      if (permit)
        destination.recordOutcome(
          permit,
          NOW,
          resolvePolicy({}),
          refused,
          classifyOutcome(resolvePolicy({}), refused),
          1,
        );
    }
    const openUntil = destination.guards.breaker?.openUntil ?? 0;
    expect(openUntil).toBeGreaterThan(NOW);
    expect(destination.changedRow()).toMatchObject({ breakerState: "OPEN", openUntil });
    const probe = destination.takePermit(false, openUntil);
    expect(destination.changedRow()).toMatchObject({ openUntil: openUntil + 5000 });
    if (probe) destination.returnPermit(probe, openUntil + 1);
    expect(destination.changedRow()).toMatchObject({ breakerState: "OPEN", openUntil });
  });

  it("is not sent once the destination is paused", () => {
    const { destination, second } = held();
    destination.adopt({ ...destination.row, version: 1, pausedAt: NOW + 3 }, NOW + 3);
    expect(destination.maySend(second, NOW + 4, false)).toBe(false);
  });
});
