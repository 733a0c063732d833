/** Tests of the handlers of a consumer: the guards of their destination, their limits, and their end. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deferred, statusError, untilAborted } from "../call/world.testing.ts";
import { RedriveError } from "../index.ts";
import { guardedShop, kinds, message, START, setup } from "./consumer.testing.ts";
import { defer, type MessageState } from "./message.ts";

describe("the guards of the destination", () => {
  test("hold a message, which starts when they admit it", async () => {
    const { clock, shop: guarded } = guardedShop({ rate: { perSecond: 1, burst: 1 } });
    const { consumer } = setup(() => "done", { destination: guarded });
    const first = await consumer.handle(message("m1"));
    const second = consumer.handle(message("m2"));
    await clock.advance(1000);
    expect(kinds([first, await second])).toEqual(["ack", "ack"]);
  });

  test("defer a message that they hold for longer, and it uses no attempt", async () => {
    const { clock, shop: guarded } = guardedShop({ rate: { perSecond: 0.1, burst: 1 } });
    const { consumer, events } = setup(() => "done", { destination: guarded, maxHoldMs: 3000 });
    await consumer.handle(message("m1"));
    const held = consumer.handle(message("m2"));
    await clock.advance(3000);
    expect(await held).toMatchObject({ kind: "defer", by: "guard", state: { attempts: 0 } });
    expect(events.at(-1)).toMatchObject({ type: "defer", by: "guard" });
  });

  test("give a slot back at once if they hold only retries, and the first attempts run", async () => {
    const { shop: guarded } = guardedShop({ retryBudget: { ratio: 0, minPerSecond: 0 } });
    const { consumer } = setup(() => "done", { destination: guarded, concurrency: 1 });
    const state = { ...START, attempts: 1 };
    await consumer.handle(message("trial", { state }));
    const held = await consumer.handle(message("held", { state }));
    expect(held).toMatchObject({ kind: "defer", by: "guard", state: { attempts: 1 } });
    expect(await consumer.handle(message("new"))).toMatchObject({ kind: "ack" });
  });

  test("that shut for retries alone while they wait with all others give their slots back", async () => {
    const { clock, shop: guarded } = guardedShop({
      rate: { perSecond: 1, burst: 1 },
      retryBudget: { ratio: 0, minPerSecond: 0 },
    });
    const { consumer } = setup(() => "done", { destination: guarded, maxHoldMs: 60_000 });
    const state = { ...START, attempts: 1 };
    await consumer.handle(message("first"));
    // Both wait for the rate. The trial of this second is for the first of them.
    const [trial, other] = ["m1", "m2"].map((id) => consumer.handle(message(id, { state })));
    await clock.advance(3000);
    expect(await trial).toMatchObject({ kind: "ack" });
    expect(await other).toMatchObject({ kind: "defer", by: "guard" });
  });

  test("make each deferral of a message longer, up to a limit, and an attempt starts again", async () => {
    const { clock, shop: guarded } = guardedShop({
      retryBudget: { ratio: 0, minPerSecond: 0.001 },
      policy: { totalBudgetMs: 86_400_000 },
    });
    const { consumer } = setup(() => Promise.reject(statusError(503)), {
      destination: guarded,
      deferMs: 1000,
      maxDeferMs: 8000,
    });
    let state: MessageState = { ...START, attempts: 1 };
    const waits: number[] = [];
    await consumer.handle(message("trial", { state }));
    for (let n = 0; n < 6; n++) {
      const answer = await consumer.handle(message("m1", { state }));
      if (answer.kind !== "defer") throw new Error(answer.kind);
      ({ state } = answer);
      waits.push(answer.delayMs);
    }
    for (const [n, waitMs] of waits.entries()) {
      const grownMs = Math.min(8000, 1000 * 2 ** n);
      expect(waitMs).toBeGreaterThanOrEqual(grownMs / 2);
      expect(waitMs).toBeLessThanOrEqual(1.5 * grownMs + 1000);
    }
    await clock.advance(1_000_000);
    const answer = await consumer.handle(message("m1", { state }));
    expect(answer).toMatchObject({ kind: "retry", state: { attempts: 2 } });
    expect(answer.kind === "retry" && answer.state.deferrals).toBeUndefined();
  });

  test("count a message that comes back as a retry", async () => {
    const { shop: guarded } = guardedShop({ retryBudget: { ratio: 0, minPerSecond: 0 } });
    const { consumer } = setup(() => "done", { destination: guarded, maxHoldMs: 0 });
    const state = { ...START, attempts: 1 };
    expect(await consumer.handle(message("new"))).toMatchObject({ kind: "ack" });
    // An empty budget admits one trial retry per second of patient callers.
    expect(await consumer.handle(message("trial", { state }))).toMatchObject({ kind: "ack" });
    expect(guarded.stats()).toMatchObject({ firsts: 1, retries: 1 });
  });

  test("learn about failures: an open circuit holds the next message", async () => {
    const breaker = { minCalls: 2, failureRate: 0.5, openMs: 5000, windowMs: 10_000 };
    const { clock, shop: guarded } = guardedShop({ breaker });
    let isDown = true;
    const handler = () => (isDown ? Promise.reject(statusError(503)) : "done");
    const { consumer } = setup(handler, { destination: guarded, maxHoldMs: 20_000 });
    for (const id of ["m1", "m2"]) await consumer.handle(message(id));
    isDown = false;
    const held = consumer.handle(message("m3"));
    expect(guarded.stats().breaker).toBe("OPEN");
    await clock.advance(7000);
    expect(await held).toMatchObject({ kind: "ack" });
  });

  test("end a message whose time runs out while they hold it", async () => {
    const rate = { perSecond: 0.001, burst: 1 };
    const { clock, shop: guarded } = guardedShop({ rate, policy: { totalBudgetMs: 1000 } });
    const { consumer } = setup(() => "done", { destination: guarded, maxHoldMs: 60_000 });
    await consumer.handle(message("m1"));
    const held = consumer.handle(message("m2"));
    await clock.advance(1000);
    expect(await held).toMatchObject({ kind: "dead-letter", reason: "held" });
  });

  test("do not hedge a handler", async () => {
    let calls = 0;
    const { clock, shop: guarded } = guardedShop({ hedge: { after: 10, max: 1 } });
    const { consumer } = setup(
      async () => {
        calls++;
        await clock.sleep(100);
      },
      { destination: guarded },
    );
    const running = consumer.handle(message("m1"));
    await clock.advance(100);
    expect(await running).toMatchObject({ kind: "ack" });
    expect(calls).toBe(1);
  });
});

describe("handlers", () => {
  test("run at most `concurrency` at once, in order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 5 }), async (concurrency) => {
        const started: string[] = [];
        let running = 0;
        let most = 0;
        const { consumer, clock } = setup(
          async ({ id }) => {
            started.push(id);
            most = Math.max(most, ++running);
            await clock.sleep(10);
            running--;
          },
          { concurrency },
        );
        const ids = Array.from({ length: 12 }, (_, index) => `m${index}`);
        const all = ids.map((id) => consumer.handle(message(id)));
        await clock.run(Promise.all(all));
        expect(most).toBe(concurrency);
        expect(started).toEqual(ids);
        expect(consumer.free).toBe(concurrency);
      }),
      { numRuns: 10 },
    );
  });

  test("that take too long are aborted, and the message is retried", async () => {
    const policy = { attemptTimeoutMs: 1000 };
    const { consumer, clock, events } = setup((_, context) => untilAborted(context), { policy });
    const running = consumer.handle(message("m1"));
    await clock.advance(1100);
    expect(await running).toMatchObject({ kind: "retry", state: { attempts: 1 } });
    expect(events.map(({ type }) => type)).toEqual(["retry"]);
  });

  test("that ignore their timeout do not stop the consumer, up to as many as it has slots", async () => {
    const release = deferred();
    const { consumer, clock, events } = setup(
      (_, { signal }) => (signal.aborted ? undefined : release.promise),
      { policy: { attemptTimeoutMs: 1000 }, concurrency: 2 },
    );
    let changes = 0;
    consumer.onLimit(() => changes++);
    const stuck = ["m1", "m2"].map((id) => consumer.handle(message(id)));
    await clock.advance(1100);
    await Promise.all(stuck);
    expect(events.filter(({ type }) => type === "still-running")).toHaveLength(2);
    expect([consumer.free, changes]).toEqual([0, 0]);
    const next = consumer.handle(message("m3"));
    release.resolve();
    expect(await next).toMatchObject({ kind: "ack" });
    expect(consumer.free).toBe(2);
    // An adapter that found no free slot looks again.
    expect(changes).toBe(2);
  });

  test("can defer their message without using an attempt", async () => {
    const { consumer } = setup(() => defer(60_000));
    const answer = await consumer.handle(message("m1"));
    expect(answer).toMatchObject({ kind: "defer", by: "handler", state: { attempts: 0 } });
    expect(answer.kind === "defer" && answer.delayMs).toBeGreaterThanOrEqual(60_000);
  });

  test("with a mistake end their message, if the one before it was handled", async () => {
    const { consumer } = setup(({ id }) => {
      if (id === "bad") throw new ReferenceError("x is not defined");
    });
    await consumer.handle(message("good"));
    const answer = await consumer.handle(message("bad"));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "not-retryable" });
  });

  test("are classified by the caller's function first", async () => {
    const { consumer } = setup(() => "rejected", {
      classify: (result) =>
        "value" in result && result.value === "rejected" ? "terminal" : undefined,
    });
    expect(await consumer.handle(message("m1"))).toMatchObject({ kind: "dead-letter" });
  });
});

describe("a handler that runs on after its timeout and has never read its signal", () => {
  const policy = { attemptTimeoutMs: 1000, totalBudgetMs: 60_000, maxAttempts: 3 };

  test("settles its message with a late success, even in the last attempt", async () => {
    const { consumer, clock, events } = setup(() => clock.sleep(5000), { policy });
    const answer = consumer.handle(message("m1", { state: { ...START, attempts: 2 } }));
    await clock.advance(5000);
    expect(await answer).toEqual({ kind: "ack", isDuplicate: false });
    expect(events.map(({ type }) => type)).toEqual(["still-running", "handled"]);
  });

  test("settles its message with a late error, which replaces the timeout", async () => {
    const { consumer, clock } = setup(
      async () => {
        await clock.sleep(5000);
        throw Object.assign(new Error("declined"), { status: 422 });
      },
      { policy },
    );
    const answer = consumer.handle(message("m1"));
    await clock.advance(5000);
    expect(await answer).toMatchObject({
      kind: "dead-letter",
      reason: "not-retryable",
      error: { status: 422 },
      state: { attempts: 1, history: [{ verdict: "terminal", durationMs: 5000 }] },
    });
  });

  test("that never ends makes its message a dead letter when the total budget is used up", async () => {
    const { consumer, clock, events } = setup(() => new Promise(() => undefined), { policy });
    const answer = consumer.handle(message("m1"));
    await clock.advance(59_999);
    expect(consumer.active).toBe(1);
    await clock.advance(1);
    expect(await answer).toMatchObject({
      kind: "dead-letter",
      reason: "budget",
      error: { code: "ATTEMPT_TIMEOUT" },
      state: { attempts: 1 },
    });
    expect(events.filter(({ type }) => type === "still-running")).toHaveLength(1);
    expect([consumer.active, consumer.overdue]).toEqual([0, 0]);
  });

  test("gives its slot to another message, as far as fewer of them run on than there are slots", async () => {
    const release = deferred();
    const slow = (id: string) => id.startsWith("slow");
    const { consumer, clock } = setup(({ id }) => (slow(id) ? release.promise : "done"), {
      policy,
      concurrency: 2,
    });
    const free: number[] = [];
    consumer.onLimit(() => free.push(consumer.free));
    const all = ["slow 1", "slow 2", "third"].map((id) => consumer.handle(message(id)));
    await clock.advance(1100);
    // With the first one overdue, the third message has started and ended.
    expect([await all[2], consumer.active, consumer.overdue]).toMatchObject([
      { kind: "ack" },
      2,
      2,
    ]);
    expect(consumer.free).toBe(0);
    release.resolve();
    expect(kinds(await Promise.all(all))).toEqual(["ack", "ack", "ack"]);
    expect([consumer.free, consumer.overdue, consumer.active]).toEqual([2, 0, 0]);
    expect(free.at(-1)).toBe(2);
  });

  test("is waited for by a stop, and its message is deferred when the time to drain is over", async () => {
    const { consumer, clock } = setup(() => new Promise(() => undefined), { policy });
    const answer = consumer.handle(message("m1"));
    await clock.advance(2000);
    const stopped = consumer.stop(5000);
    await clock.advance(5000);
    expect(await answer).toMatchObject({ kind: "defer", by: "stop", state: { attempts: 0 } });
    await stopped;
  });
});

describe("stop", () => {
  test("waits for running handlers", async () => {
    const release = deferred();
    const { consumer } = setup(() => release.promise);
    const running = consumer.handle(message("m1"));
    const stopped = consumer.stop(1000);
    expect(consumer.free).toBe(0);
    release.resolve();
    expect(await running).toMatchObject({ kind: "ack" });
    await stopped;
    await consumer.stop(1000);
  });

  test("defers messages that have not started, and aborts handlers that take too long", async () => {
    const reasons: unknown[] = [];
    const { consumer, clock } = setup(
      async (_, context) => {
        await untilAborted(context).catch((error: unknown) => reasons.push(error));
        throw new Error("aborted");
      },
      { concurrency: 1 },
    );
    const running = consumer.handle(message("m1"));
    const waiting = consumer.handle(message("m2"));
    const stopped = consumer.stop(1000);
    await clock.advance(1000);
    expect(await running).toMatchObject({ kind: "defer", by: "stop", state: { attempts: 0 } });
    expect(await waiting).toMatchObject({ kind: "defer", by: "stop" });
    await stopped;
    expect(reasons).toMatchObject([{ code: "CONSUMER_STOPPED" }]);
    expect(reasons[0]).toBeInstanceOf(RedriveError);
    expect(await consumer.handle(message("late"))).toMatchObject({ kind: "defer", by: "stop" });
  });
});
