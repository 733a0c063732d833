/** Tests of the intake: when it takes messages, when it takes none, and how it begins again. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { statusError } from "../call/world.testing.ts";
import { guardedShop, message, START, setup } from "./consumer.testing.ts";

const mistake = new TypeError("order.lines is not iterable");

const BREAKER = { minCalls: 2, failureRate: 0.5, openMs: 30_000, maxOpenMs: 30_000 };

describe("while the guards hold every message", () => {
  async function held() {
    const { clock, shop } = guardedShop({ breaker: BREAKER });
    let isDown = true;
    const seen = setup(() => (isDown ? Promise.reject(statusError(503)) : "done"), {
      destination: shop,
      concurrency: 2,
    });
    for (const id of ["m1", "m2"]) await seen.consumer.handle(message(id));
    const waiting = seen.consumer.handle(message("m3"));
    await clock.advance(10_000);
    const repair = () => {
      isDown = false;
    };
    return { ...seen, clock, shop, waiting, repair };
  }

  test("a message is deferred until the guard opens, and nothing else is taken", async () => {
    const { waiting, consumer, shop } = await held();
    const answer = await waiting;
    expect(answer).toMatchObject({ kind: "defer", by: "guard" });
    expect(shop.stats().breaker).toBe("OPEN");
    expect(answer.kind === "defer" && answer.delayMs).toBeGreaterThanOrEqual(14_000);
    expect([consumer.free, consumer.limit]).toEqual([0, 0]);
  });

  test("one message at a time is tried then, and all slots are free when it was handled", async () => {
    const { consumer, clock, repair } = await held();
    let changes = 0;
    consumer.onLimit(() => changes++);
    repair();
    await clock.advance(30_000);
    expect([consumer.free, consumer.limit, changes]).toEqual([1, 1, 1]);
    expect(await consumer.handle(message("m4"))).toMatchObject({ kind: "ack" });
    expect([consumer.free, consumer.limit, changes]).toEqual([2, 2, 2]);
  });

  test("it takes none again if the one fails and the guards hold all others", async () => {
    const { consumer, clock, shop } = await held();
    await clock.advance(30_000);
    expect(await consumer.handle(message("m4"))).toMatchObject({ kind: "retry" });
    expect(shop.stats().breaker).toBe("OPEN");
    expect(consumer.limit).toBe(0);
  });

  test("messages that arrive nevertheless wait in line, and are deferred", async () => {
    const { consumer, clock } = await held();
    const late = consumer.handle(message("late"));
    expect(consumer.waiting).toBe(1);
    await clock.advance(10_000);
    expect(await late).toMatchObject({ kind: "defer", by: "guard", state: { attempts: 0 } });
    expect(consumer.waiting).toBe(0);
  });

  test("a stop gives all of them back", async () => {
    const { consumer, clock } = await held();
    const late = consumer.handle(message("late"));
    await clock.run(consumer.stop(0));
    expect(await late).toMatchObject({ kind: "defer", by: "stop" });
  });
});

describe("retries that mostly fail", () => {
  test("take at most half of the slots", async () => {
    let running = 0;
    let most = 0;
    const { consumer, clock } = setup(
      async () => {
        most = Math.max(most, ++running);
        await clock.sleep(10);
        running--;
        throw statusError(503);
      },
      { concurrency: 8 },
    );
    const state = { ...START, attempts: 1 };
    const deliver = () =>
      Promise.all(
        Array.from({ length: 8 }, (_, n) => consumer.handle(message(`m${n}`, { state }))),
      );
    for (let round = 0; round < 10; round++) await clock.run(deliver());
    most = 0;
    const answers = await clock.run(deliver());
    expect(most).toBe(4);
    const deferred = answers.filter(({ kind }) => kind === "defer");
    expect(deferred).toHaveLength(4);
    expect(deferred[0]).toMatchObject({ by: "retries", state: { attempts: 1 } });
    expect([consumer.free, consumer.freeForRetries]).toEqual([8, 4]);
  });

  test("take all of them again when they succeed", async () => {
    let isDown = true;
    const { consumer } = setup(() => (isDown ? Promise.reject(statusError(503)) : "done"));
    const state = { ...START, attempts: 1 };
    for (let n = 0; n < 100; n++) await consumer.handle(message("m1", { state }));
    expect(consumer.freeForRetries).toBe(5);
    isDown = false;
    for (let n = 0; n < 40; n++) await consumer.handle(message("m1", { state }));
    expect(consumer.freeForRetries).toBe(10);
  });

  test("are told to adapters, which do not learn of each change to and fro", async () => {
    let isDown = true;
    const { consumer } = setup(() => (isDown ? Promise.reject(statusError(503)) : "done"));
    const state = { ...START, attempts: 1 };
    const told: boolean[] = [];
    consumer.onLimit(() => told.push(consumer.areRetriesFailing));
    const run = async (count: number, isFailing: boolean) => {
      isDown = isFailing;
      for (let n = 0; n < count; n++) await consumer.handle(message("m1", { state }));
      return told.splice(0);
    };
    expect(await run(33, true)).toEqual([true]);
    expect(await run(10, false)).toEqual([]);
    expect(await run(20, true)).toEqual([]);
    expect(await run(63, false)).toEqual([false]);
  });

  test("still run if there is only one slot", async () => {
    const { consumer } = setup(() => Promise.reject(statusError(503)), { concurrency: 1 });
    const state = { ...START, attempts: 1 };
    for (let n = 0; n < 100; n++) await consumer.handle(message("m1", { state }));
    expect(consumer.freeForRetries).toBe(1);
  });
});

describe("errors of the program", () => {
  test("pause the consumer when most messages end with them, and none is a dead letter", async () => {
    const { consumer, events } = setup(() => Promise.reject(mistake));
    for (let n = 0; n < 10; n++) {
      const answer = await consumer.handle(message(`m${n}`));
      expect(answer).toMatchObject({ kind: "defer", by: "program-error", state: { attempts: 0 } });
    }
    expect(consumer.free).toBe(0);
    expect(events.filter(({ type }) => type === "paused")).toMatchObject([
      { errors: 10, ends: 10, error: mistake, consumer: "messages" },
    ]);
    expect(events.find(({ type }) => type === "defer")).toMatchObject({ error: mistake });
  });

  test("are those of credentials too, but not those of the data", async () => {
    const revoked = setup(() => Promise.reject(statusError(401)));
    expect(await revoked.consumer.handle(message("m1"))).toMatchObject({ by: "program-error" });
    const duplicate = Object.assign(new Error("duplicate key"), { code: "23505" });
    for (const error of [statusError(404), duplicate]) {
      const { consumer } = setup(() => Promise.reject(error));
      expect(await consumer.handle(message("m1"))).toMatchObject({ kind: "dead-letter" });
    }
  });

  async function paused(maxProbeMs = 20_000) {
    let isBroken = true;
    const handler = () => {
      if (isBroken) throw mistake;
      return "done";
    };
    const seen = setup(handler, { pause: { probeMs: 5000, maxProbeMs } });
    for (let n = 0; n < 10; n++) await seen.consumer.handle(message(`m${n}`));
    const repair = () => {
      isBroken = false;
    };
    return { ...seen, repair };
  }

  test("are probed with one message at a time, later each time up to a limit", async () => {
    const { consumer, clock, events } = await paused();
    const waits: number[] = [];
    for (let probe = 0; probe < 5; probe++) {
      const before = clock.now();
      while (consumer.free === 0) await clock.advance(1000);
      expect(consumer.free).toBe(1);
      waits.push(clock.now() - before);
      const answer = await consumer.handle(message("m1", { state: START }));
      expect(answer).toMatchObject({ kind: "defer", by: "program-error", state: { attempts: 0 } });
    }
    expect(waits).toEqual([5000, 10_000, 20_000, 20_000, 20_000]);
    expect(events.filter(({ type }) => type === "paused")).toHaveLength(1);
  });

  test("end when a probe succeeds, and the consumer says so", async () => {
    const { consumer, clock, events, repair } = await paused();
    repair();
    await clock.advance(5000);
    expect(await consumer.handle(message("m1"))).toMatchObject({ kind: "ack" });
    expect(consumer.free).toBe(10);
    expect(events.at(-2)).toMatchObject({ type: "resumed", pausedMs: 5000 });
  });

  test("keep it paused while the dependency is down, too", async () => {
    let error: Error = mistake;
    const { consumer, clock } = setup(() => Promise.reject(error));
    for (let n = 0; n < 10; n++) await consumer.handle(message(`m${n}`));
    error = statusError(503);
    await clock.advance(5000);
    expect(await consumer.handle(message("m1"))).toMatchObject({ kind: "retry" });
    expect(consumer.limit).toBe(1);
  });

  test("of a single message end it after three times, if nothing else is handled", async () => {
    const { consumer } = setup(() => Promise.reject(mistake));
    let state = START;
    for (let n = 0; n < 2; n++) {
      const answer = await consumer.handle(message("m1", { state }));
      if (answer.kind !== "defer") throw new Error(answer.kind);
      ({ state } = answer);
    }
    const last = await consumer.handle(message("m1", { state }));
    expect(last).toMatchObject({ kind: "dead-letter", reason: "not-retryable", error: mistake });
    expect(last.kind === "dead-letter" && last.state.attempts).toBe(1);
  });

  test("do not pause it if that is turned off", async () => {
    const { consumer } = setup(() => Promise.reject(mistake), { pause: false });
    for (let n = 0; n < 30; n++) {
      expect(await consumer.handle(message(`m${n}`))).toMatchObject({ kind: "dead-letter" });
    }
    expect(consumer.free).toBe(10);
  });

  test("of at most half of the messages never pause it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 30 }), async (flips) => {
        // Every error follows a success.
        const { consumer, events } = setup(({ id }) => {
          if (id === "bad") throw mistake;
        });
        for (const isBad of flips) {
          await consumer.handle(message("good"));
          if (isBad) {
            expect(await consumer.handle(message("bad"))).toMatchObject({ kind: "dead-letter" });
          }
        }
        expect(events.some(({ type }) => type === "paused")).toBe(false);
      }),
      { numRuns: 20 },
    );
  });
});
