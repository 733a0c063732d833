/** Tests of the engine on virtual time. A test or a script ends the attempts. */
import { statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { T0, TENANT } from "../stores/store.testing.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";

describe("an engine", () => {
  it("attempts a task at once, retries it after a failure and ends it with success", async () => {
    const { clock, enqueue, sent, script, get } = await setup({ jitterType: "NONE" });
    script.push(FAILED, FAILED, OK);
    const { task } = enqueue();
    await clock.advance(1000);
    expect(sent.map(({ at }) => at - T0)).toEqual([0, 110, 320]);
    expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 3 });
  });

  it("turns a task that never succeeds into a dead letter", async () => {
    const { clock, store, enqueue, script, get } = await setup({ maxAttempts: 2 });
    script.push(FAILED, FAILED);
    const { task } = enqueue();
    await clock.advance(1000);
    expect(await get(task.taskId)).toMatchObject({ status: "EXHAUSTED", reason: "attempts" });
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 10 });
    expect(attempts.map(({ responseStatus }) => responseStatus)).toEqual([500, 500]);
    expect(attempts[0]?.delaySource).toBe("policy");
  });

  it("also takes from the service's retry budget, at its price after a throttling response", async () => {
    const retryBudget = { kind: "TOKENS" } as const;
    const policy = { jitterType: "NONE" } as const;
    const { clock, engine, enqueue, script } = await setup(policy, T0, { retryBudget });
    const tokens = () =>
      engine.serviceBudget?.whole.kind === "TOKENS" ? engine.serviceBudget.whole.tokens : 0;
    script.push(FAILED, statusOutcome(429));
    enqueue();
    await clock.advance(110);
    expect(tokens()).toBe(500 - 14);
    await clock.advance(210);
    expect(tokens()).toBe(500 - 14 - 5);
  });

  it("does not attempt a task before its scheduled instant", async () => {
    const { clock, enqueue, sent } = await setup();
    enqueue({ scheduledAt: T0 + 5000 });
    await clock.advance(4999);
    expect(sent).toEqual([]);
    await clock.advance(1);
    expect(sent).toHaveLength(1);
  });

  it("stores the claim before it sends the request", async () => {
    const { clock, enqueue, sent, get } = await setup();
    const { task } = enqueue();
    await clock.advance(1);
    expect(sent).toHaveLength(1);
    expect(await get(task.taskId)).toMatchObject({ status: "IN_FLIGHT", attemptNumber: 1 });
  });

  it("ends a task whose total budget is over without another attempt", async () => {
    const { clock, engine, enqueue, sent, get } = await setup({ totalBudgetMs: 2000 });
    await engine.changeDestination(TENANT, "https://example.com", { pausedAt: T0 });
    const { task } = enqueue();
    await clock.advance(3000);
    await engine.changeDestination(TENANT, "https://example.com", { pausedAt: null });
    await clock.advance(10);
    expect(sent).toEqual([]);
    expect(await get(task.taskId)).toMatchObject({
      status: "EXHAUSTED",
      reason: "held",
      lastError: "held by a pause until its time was over",
      attemptNumber: 0,
    });
  });

  it("holds every task of a destination that sent a Retry-After, then sends one as a trial", async () => {
    const { clock, enqueue, sent, script } = await setup({ totalBudgetMs: 3_600_000 });
    script.push({ kind: "status", status: 503, retryAfterMs: 20_000 });
    enqueue();
    await clock.advance(100);
    for (let n = 0; n < 5; n++) enqueue();
    await clock.advance(19_000);
    expect(sent).toHaveLength(1);
    await clock.advance(1500);
    expect(sent).toHaveLength(2);
    sent[1]?.finish(OK);
    await clock.advance(5);
    expect(sent.length).toBeGreaterThanOrEqual(4);
  });

  it("isolates destinations from each other's failures", async () => {
    const { clock, enqueue, sent } = await setup();
    for (let n = 0; n < 100; n++) enqueue({ destination: "slow" });
    await clock.advance(5);
    const before = sent.length;
    enqueue({ destination: "quick" });
    await clock.advance(1);
    expect(sent.slice(before).map(({ task }) => task.destination)).toEqual(["quick"]);
    expect(before).toBe(64);
  });

  it("opens the breaker of a failing destination, and probes it", async () => {
    const { clock, enqueue, sent, store } = await setup({ maxAttempts: 1 });
    for (let n = 0; n < 100; n++) enqueue();
    await clock.advance(1);
    while (sent.length < 90) {
      for (const { finish } of sent) finish(FAILED);
      await clock.advance(1);
      if ((await store.getDestination(TENANT, "https://example.com"))?.breakerState === "OPEN")
        break;
    }
    const opened = sent.length;
    await clock.advance(3000);
    expect(sent.length).toBe(opened);
    await clock.advance(4000);
    expect(sent.length).toBe(opened + 1);
  });

  it("cancels a waiting task, and a running one unless its attempt succeeds", async () => {
    const { clock, engine, enqueue, sent, get } = await setup();
    const waiting = enqueue({ scheduledAt: T0 + 1000 }).task;
    const failing = enqueue().task;
    const winning = enqueue().task;
    await clock.advance(1);
    const cancels = [waiting, failing, winning].map((ref) => engine.cancel(ref));
    const kinds = (await clock.run(Promise.all(cancels))).map(({ kind }) => kind);
    expect(kinds).toEqual(["cancelled", "requested", "requested"]);
    sent[0]?.finish(FAILED);
    sent[1]?.finish(OK);
    await clock.advance(2000);
    expect(sent).toHaveLength(2);
    expect((await get(failing.taskId))?.status).toBe("CANCELLED");
    expect((await get(winning.taskId))?.status).toBe("SUCCEEDED");
  });

  it("rescues the claims of a dead node, and counts the attempts", async () => {
    const { clock, boot, enqueue, sent, get } = await setup({ jitterType: "NONE" });
    const { task } = enqueue();
    await clock.advance(1);
    await boot("node-2");
    await clock.advance(200);
    expect(sent).toHaveLength(2);
    sent[0]?.finish(OK);
    await clock.advance(1);
    expect((await get(task.taskId))?.status).toBe("IN_FLIGHT");
    sent[1]?.finish(OK);
    await clock.advance(1);
    expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 2 });
  });

  it("gives up on a task whose node dies three times", async () => {
    const { clock, boot, enqueue, sent, get } = await setup();
    const { task } = enqueue();
    for (const nodeId of ["node-2", "node-3", "node-4"]) {
      await clock.advance(5000);
      await boot(nodeId);
    }
    await clock.advance(5000);
    expect(sent).toHaveLength(3);
    expect(await get(task.taskId)).toMatchObject({ status: "EXHAUSTED", reason: "poison" });
  });

  it("rescues all claims of a dead node at once, however many there are", async () => {
    const { clock, store, enqueue, boot } = await setup({}, T0, { attemptsPerOrigin: 1000 });
    for (let n = 0; n < 800; n++) enqueue({ destination: `d${n % 40}` });
    await clock.advance(0);
    const left = () => store.all().filter(({ claimedBy }) => claimedBy === "node-1").length;
    expect(left()).toBe(800);
    const next = await boot("node-2");
    await clock.advance(10);
    expect(left()).toBe(0);
    await clock.run(next.stop(0));
  });

  it("stops when the running attempts have ended, and starts nothing new", async () => {
    const { clock, engine, enqueue, sent, get } = await setup();
    const { task } = enqueue();
    const later = enqueue({ scheduledAt: T0 + 50 }).task;
    await clock.advance(1);
    const stopping = engine.stop();
    await clock.advance(100);
    sent[0]?.finish(OK);
    await clock.run(stopping);
    expect(sent).toHaveLength(1);
    expect((await get(task.taskId))?.status).toBe("SUCCEEDED");
    expect((await get(later.taskId))?.status).toBe("PENDING");
    await expect(enqueue().created).rejects.toThrow(/stopping or has stopped/);
    expect(clock.pending()).toBe(0);
  });

  it("removes expired tasks faster than one slice every two seconds", async () => {
    const { clock, store, enqueue, script, sent } = await setup({}, T0, { retentionMs: 1000 });
    script.push(...Array.from({ length: 1000 }, () => OK));
    for (let n = 0; n < 1000; n++) enqueue();
    await clock.advance(1500);
    expect(sent).toHaveLength(1000);
    await clock.advance(3500);
    expect(await store.query.count(TENANT)).toEqual({});
  });

  it("continues soon after a slice of removals that ended because of its time", async () => {
    const { clock, store, enqueue, script } = await setup({}, T0, { retentionMs: 1000 });
    const { sweep } = store;
    const { monotonicMs } = clock;
    let lateMs = 0;
    Object.assign(clock, { monotonicMs: () => monotonicMs.call(clock) + lateMs });
    const slow: typeof sweep = ({ isOver, ...retention }) => {
      lateMs++;
      return sweep({ ...retention, limit: isOver?.() ? 1 : 0 });
    };
    Object.assign(store, { sweep: slow });
    script.push(...Array.from({ length: 20 }, () => OK));
    for (let n = 0; n < 20; n++) enqueue();
    await clock.advance(5000);
    expect(await store.query.count(TENANT)).toEqual({});
  });
});
