/** Tests of leases, outcomes, fenced requests and failing stores, in virtual time. */
import { virtualClock } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { incoming } from "../http/incoming.ts";
import { isRun } from "../serve/interceptor.ts";
import { NotExecuted } from "../serve/problem.ts";
import { servedFetch } from "../serve/served-fetch.ts";
import { codeOf, LEASE_MS, setUp } from "./idempotency.testing.ts";
import { idempotency } from "./idempotency.ts";
import { memoryStore } from "./memory-store.ts";

/** As if the process were dead. */
const neverRenewed = () => ({ renew: async () => true });

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("a lease", () => {
  test("is renewed while the handler runs, as long as that takes", async () => {
    const { clock, post, started, types, elsewhere } = setUp();
    const first = post();
    const run = await started(1);
    await clock.advance(10 * LEASE_MS);
    expect(await codeOf(await post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    run.respond();
    expect((await first).status).toBe(201);
    expect(types()).toEqual(["claimed", "in-progress", "stored"]);
  });

  test("is not lost when it is renewed between the commit of its response and the response", async () => {
    const { clock, claimOf, post, started, types } = setUp({}, ({ settle }) => ({
      settleIn: (_tx: unknown, ...values: Parameters<typeof settle>) => settle(...values),
    }));
    const first = post();
    const run = await started(1);
    const claim = claimOf(run);
    await claim.settleIn({}, { status: 201, body: "done" });
    await clock.advance(LEASE_MS);
    run.respond(new Response(new TextEncoder().encode("done"), { status: 201 }));
    expect((await first).status).toBe(201);
    expect(claim.signal.aborted).toBe(false);
    expect(types()).toEqual(["claimed", "stored"]);
  });

  test("leaves no timer behind", async () => {
    const { clock, post, started } = setUp();
    const first = post();
    (await started(1)).respond();
    await first;
    // The timer that all calls share stops by itself.
    await clock.advance(LEASE_MS);
    expect(clock.pending()).toBe(0);
  });

  test("of a crashed process ends, and the next request runs in another one", async () => {
    const { clock, post, started, elsewhere } = setUp({}, neverRenewed);
    void post();
    await started(1);
    await clock.advance(LEASE_MS - 1);
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    await clock.advance(1);
    const second = elsewhere.post();
    (await elsewhere.started(1)).respond();
    expect((await second).status).toBe(201);
    expect(elsewhere.events.at(-2)).toMatchObject({ type: "claimed", takeovers: 1 });
  });

  test("that ended with another payload: 422, because the first request may have taken effect", async () => {
    const { clock, post, started, elsewhere } = setUp({}, neverRenewed);
    void post("a");
    await started(1);
    await clock.advance(LEASE_MS);
    expect((await elsewhere.post("b")).status).toBe(422);
  });
});

describe("a handler that runs for longer than maxRunMs", () => {
  async function stuck() {
    const all = setUp({ maxRunMs: 60_000 });
    const first = all.post();
    const run = await all.started(1);
    await all.clock.advance(60_000);
    return { ...all, first, run };
  }

  test("has an unknown outcome, and no repetition runs, neither then nor later", async () => {
    const { clock, post, elsewhere, types, runs } = await stuck();
    expect(types()).toEqual(["claimed", "run-too-long", "outcome-unknown", "stored"]);
    for (const waitMs of [0, LEASE_MS, 20 * 3_600_000]) {
      await clock.advance(waitMs);
      for (const server of [{ post }, elsewhere]) {
        const response = await server.post();
        expect([response.status, response.headers.get("retry-after")]).toEqual([409, null]);
        expect(await codeOf(response)).toBe("IDEMPOTENCY_OUTCOME_UNKNOWN");
      }
    }
    expect([runs.length, elsewhere.runs.length]).toEqual([1, 0]);
    // The timer that all calls share stops by itself.
    await clock.advance(LEASE_MS);
    expect(clock.pending()).toBe(0);
  });

  test("and then ends after all, has the outcome of its end", async () => {
    const { run, first, elsewhere } = await stuck();
    run.respond(new Response("late", { status: 201 }));
    expect(await (await first).text()).toBe("late");
    const again = await elsewhere.post();
    expect([again.status, await again.text()]).toEqual([201, "late"]);
  });
});

describe("an outcome", () => {
  test("is that of a handler that throws: the repetition gets a 500 that says no more", async () => {
    const { post, started, events, elsewhere } = setUp();
    const first = post();
    const error = new Error("secret");
    (await started(1)).fail(error);
    await expect(first).rejects.toBe(error);
    const again = await elsewhere.post();
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([500, "true"]);
    expect(await again.text()).not.toContain("secret");
    expect(events).toMatchObject([
      { type: "claimed" },
      { type: "handler-failed", error },
      { type: "stored", status: 500 },
    ]);
  });

  test("is that of a handler that returns no response", async () => {
    const { post, started, runs } = setUp();
    const first = post();
    (await started(1)).respond(null as never);
    await expect(first).rejects.toThrow(TypeError);
    expect((await post()).status).toBe(500);
    expect(runs).toHaveLength(1);
  });

  test("is that of a response whose body breaks off", async () => {
    const { post, started, runs } = setUp();
    const first = post();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("half"));
        controller.error(new Error("disk"));
      },
    });
    (await started(1)).respond(new Response(body));
    await expect(first).rejects.toThrow("disk");
    expect((await post()).status).toBe(500);
    expect(runs).toHaveLength(1);
  });

  test("is free again after NotExecuted, which becomes a 503 with Retry-After", async () => {
    const { post, started, types } = setUp();
    const first = post();
    (await started(1)).fail(new NotExecuted("the card network is down", { retryAfterMs: 5000 }));
    const response = await first;
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.json()).toMatchObject({
      code: "NOT_EXECUTED",
      detail: "the card network is down",
    });
    const second = post();
    (await started(2)).respond();
    expect((await second).status).toBe(201);
    expect(types()).toEqual(["claimed", "not-executed", "claimed", "stored"]);
  });

  test("stays with the transaction of the handler, if it throws after the commit", async () => {
    const { post, started, claimOf, elsewhere } = setUp({}, ({ settle }) => ({
      settleIn: (_tx: unknown, ...values: Parameters<typeof settle>) => settle(...values),
    }));
    const first = post();
    const run = await started(1);
    await claimOf(run).settleIn({}, { status: 201, body: "charged" });
    run.fail(new Error("no connection to the mail server"));
    await expect(first).rejects.toThrow("mail server");
    const again = await elsewhere.post();
    expect([again.status, await again.text()]).toEqual([201, "charged"]);
  });

  test("stays with a transaction that has committed, even if the handler says that it had no effect", async () => {
    for (const isCommitted of [true, false]) {
      const { post, started, claimOf, elsewhere } = setUp({}, ({ settle }) => ({
        settleIn: async (_tx: unknown, ...values: Parameters<typeof settle>) =>
          isCommitted ? await settle(...values) : true,
      }));
      const first = post();
      const run = await started(1);
      await claimOf(run).settleIn({}, { status: 201, body: "charged" });
      run.fail(new NotExecuted("the connection was lost during the commit"));
      expect((await first).status).toBe(503);
      if (isCommitted) expect(await (await elsewhere.post()).text()).toBe("charged");
      else {
        void elsewhere.post();
        await elsewhere.started(1);
      }
    }
  });

  test("is that of the handler, if its transaction is rolled back", async () => {
    const { post, started, claimOf, elsewhere } = setUp({}, () => ({
      settleIn: async () => true,
    }));
    const first = post();
    const run = await started(1);
    await claimOf(run).settleIn({}, { status: 201, body: "charged" });
    run.respond(new Response("rolled back", { status: 500 }));
    await first;
    const again = await elsewhere.post();
    expect([again.status, await again.text()]).toEqual([500, "rolled back"]);
  });
});

test.each<[string, object, RegExp]>([
  ["a status of success", { status: 200 }, /status must be 400 to 599, got 200/],
  ["a negative wait", { retryAfterMs: -1 }, /retryAfterMs must be 0 to 86400000, got -1/],
])("NotExecuted refuses %s", (_, options, message) => {
  expect(() => new NotExecuted("x", options)).toThrow(message);
});

test("a request that had no effect after a crash hides nothing: the next one learns of the crash", async () => {
  const { clock, post, started, elsewhere } = setUp({}, neverRenewed);
  void post();
  await started(1);
  await clock.advance(LEASE_MS);
  const second = elsewhere.post();
  const run = await elsewhere.started(1);
  expect(elsewhere.claimOf(run).takeovers).toBe(1);
  run.fail(new NotExecuted("the payment provider does not say what it has done"));
  expect((await second).status).toBe(503);
  await clock.advance(1);
  expect((await elsewhere.post("other")).status).toBe(422);
  void elsewhere.post();
  expect(elsewhere.claimOf(await elsewhere.started(2)).takeovers).toBe(2);
});

describe("release", () => {
  test("frees the key at once, and the response is sent and not stored", async () => {
    const { post, started, claimOf, types } = setUp();
    const first = post();
    const run = await started(1);
    expect(await claimOf(run).release()).toBe(true);
    const second = post();
    (await started(2)).respond(new Response("second"));
    expect(await (await second).text()).toBe("second");
    run.respond(new Response("first", { status: 503 }));
    expect(await (await first).text()).toBe("first");
    expect(await (await post()).text()).toBe("second");
    expect(types()).toEqual(["claimed", "released", "claimed", "stored", "replayed"]);
  });

  test("twice is the same as once, also after the response", async () => {
    const { post, started, claimOf, types } = setUp();
    const first = post();
    const run = await started(1);
    expect([await claimOf(run).release(), await claimOf(run).release()]).toEqual([true, true]);
    run.respond();
    await first;
    expect(await claimOf(run).release()).toBe(true);
    expect(types()).toEqual(["claimed", "released"]);
  });

  test("that nobody awaits is carried out before the response is sent", async () => {
    const { post, started, claimOf } = setUp();
    const first = post();
    const run = await started(1);
    void claimOf(run).release();
    run.respond(new Response("down", { status: 503 }));
    await first;
    void post();
    await started(2);
  });

  test("after the response has no effect", async () => {
    const { post, started, claimOf } = setUp();
    const first = post();
    const run = await started(1);
    run.respond();
    await first;
    expect(await claimOf(run).release()).toBe(false);
    expect((await post()).headers.get("idempotent-replayed")).toBe("true");
  });

  test("after a commit has no effect, and after a rollback it frees the key", async () => {
    for (const isCommitted of [true, false]) {
      const { post, started, claimOf, runs } = setUp({}, ({ settle }) => ({
        settleIn: async (_tx: unknown, ...values: Parameters<typeof settle>) =>
          isCommitted ? await settle(...values) : true,
      }));
      const first = post();
      const run = await started(1);
      await claimOf(run).settleIn({}, { status: 201, body: "charged" });
      expect(await claimOf(run).release()).toBe(!isCommitted);
      run.respond(new Response("charged", { status: 201 }));
      expect((await first).status).toBe(201);
      if (isCommitted) expect(await (await post()).text()).toBe("charged");
      else {
        void post();
        await started(2);
      }
      expect(runs).toHaveLength(isCommitted ? 1 : 2);
    }
  });

  test("is followed by no settleIn", async () => {
    const { post, started, claimOf } = setUp({}, ({ settle }) => ({
      settleIn: (_tx: unknown, ...values: Parameters<typeof settle>) => settle(...values),
    }));
    void post();
    const run = await started(1);
    await claimOf(run).release();
    await expect(claimOf(run).settleIn({}, { status: 201 })).rejects.toMatchObject({
      code: "IDEMPOTENCY_LEASE_LOST",
    });
  });

  test("of a key that another request has taken over has no effect on it", async () => {
    const { clock, post, started, claimOf, elsewhere } = setUp({}, neverRenewed);
    void post();
    const run = await started(1);
    await clock.advance(LEASE_MS);
    void elsewhere.post();
    await elsewhere.started(1);
    expect(await claimOf(run).release()).toBe(false);
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
  });

  test("of a store that does not answer is false, and the key is free when its lease ends", async () => {
    const down = async () => {
      throw new Error("store is down");
    };
    const { clock, post, started, claimOf, elsewhere, events } = setUp({}, () => ({
      release: down,
    }));
    const first = post();
    const run = await started(1);
    expect(await clock.run(claimOf(run).release())).toBe(false);
    run.respond(new Response("down", { status: 503 }));
    expect(await (await first).text()).toBe("down");
    expect(events.at(-1)).toMatchObject({ type: "store-failed", during: "release" });
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    await clock.advance(LEASE_MS);
    void elsewhere.post();
    await elsewhere.started(1);
  });
});

describe("a late finisher", () => {
  /** A request whose renewals fail, and one in another process that has taken its key over. */
  async function overtaken() {
    let isCutOff = true;
    const all = setUp({}, ({ renew }) => ({
      renew: async (key, owner, leaseMs) => {
        if (isCutOff) throw new Error("no connection");
        return await renew(key, owner, leaseMs);
      },
    }));
    const { clock, post, started, elsewhere } = all;
    const late = post();
    const run = await started(1);
    const claim = all.claimOf(run);
    await clock.advance(LEASE_MS);
    const next = elsewhere.post();
    const nextRun = await elsewhere.started(1);
    isCutOff = false;
    return { ...all, late, run, claim, next, nextRun };
  }

  test("gets 409 and its response is not stored", async () => {
    const { late, run, next, nextRun, post, types } = await overtaken();
    run.respond(new Response("late", { status: 201, headers: { "set-cookie": "late=1" } }));
    const response = await late;
    expect(response.status).toBe(409);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(response.headers.get("set-cookie")).toBeNull();
    expect(await codeOf(response)).toBe("IDEMPOTENCY_LEASE_LOST");
    nextRun.respond(new Response("next", { status: 201 }));
    expect(await (await next).text()).toBe("next");
    expect(await (await post()).text()).toBe("next");
    expect(types().filter((type) => type === "lease-lost")).toHaveLength(1);
  });

  test("learns it from its signal, before it has ended", async () => {
    const { clock, claim, run, late } = await overtaken();
    await clock.advance(LEASE_MS);
    expect(claim.signal.aborted).toBe(true);
    expect(claim.signal.reason).toMatchObject({ code: "IDEMPOTENCY_LEASE_LOST" });
    run.respond();
    expect((await late).status).toBe(409);
  });

  test("that throws gets 409 too, and does not free the key of the other one", async () => {
    const { clock, late, run, post } = await overtaken();
    await clock.advance(LEASE_MS);
    run.fail(new Error("aborted"));
    expect((await late).status).toBe(409);
    expect(await codeOf(await post())).toBe("IDEMPOTENCY_IN_PROGRESS");
  });
});

describe("a store that fails", () => {
  const down = async () => {
    throw new Error("store is down");
  };

  /** A store that fails from the moment that the test says, and works again later. */
  function breakable(more: Parameters<typeof setUp>[0] = {}) {
    const state = { isDown: false };
    const all = setUp(more, (memory) => {
      const whenUp =
        <Values extends unknown[], T>(fn: (...values: Values) => Promise<T>) =>
        async (...values: Values) =>
          state.isDown ? await down() : await fn(...values);
      return {
        claim: whenUp(memory.claim),
        renew: whenUp(memory.renew),
        settle: whenUp(memory.settle),
        release: whenUp(memory.release),
      };
    });
    /** A request whose client has its response, while the store does not have its outcome. */
    async function answered(response = new Response("charged", { status: 201 }), key = "k") {
      const first = all.post("{}", { "idempotency-key": key });
      const run = await all.started(all.runs.length + 1);
      state.isDown = true;
      run.respond(response);
      const answer = await all.clock.run(first);
      return { status: answer.status, text: await answer.text() };
    }
    return { ...all, state, answered };
  }

  test("at the claim: 503 with Retry-After, and the handler does not run", async () => {
    const { post, runs, events } = setUp({}, () => ({ claim: down }));
    const response = await post();
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await codeOf(response)).toBe("STORE_UNAVAILABLE");
    expect(runs).toEqual([]);
    expect(events).toMatchObject([{ type: "store-failed", during: "claim" }]);
  });

  test("by not answering the claim: 503 after storeTimeoutMs, and a late claim is released", async () => {
    let answer = () => {};
    const isAnswered = new Promise<void>((resolve) => (answer = resolve));
    const released: string[] = [];
    const { clock, post } = setUp({}, (memory) => ({
      claim: async (key, claim) => {
        await isAnswered;
        return await memory.claim(key, claim);
      },
      release: async (key, owner) => {
        released.push(owner);
        return await memory.release(key, owner);
      },
    }));
    const response = post();
    await clock.advance(6_000);
    expect((await response).status).toBe(503);
    answer();
    while (released.length === 0) await turn();
    expect(released).toEqual(["owner-0"]);
  });

  test("when the outcome is stored: the client gets its response after three tries", async () => {
    let tries = 0;
    const settle = async () => {
      tries++;
      return await down();
    };
    const { clock, post, started, events } = setUp({}, () => ({ settle }));
    const first = post();
    (await started(1)).respond();
    const triesBefore = clock.run(first).then((response) => [response.status, tries]);
    const [status, triedFirst] = await triesBefore;
    expect([status, Number(triedFirst) >= 3]).toEqual([201, true]);
    expect(events.find(({ type }) => type === "store-failed")).toMatchObject({ during: "settle" });
  });

  test("between the effect and the outcome, for ten leases: no repetition runs, and then the outcome is stored", async () => {
    const { clock, post, answered, state, elsewhere, runs, types } = breakable();
    expect(await answered()).toEqual({ status: 201, text: "charged" });
    await clock.advance(10 * LEASE_MS);
    // This process knows the outcome, even while the store is away.
    expect(await (await post()).text()).toBe("charged");
    expect((await post("other")).status).toBe(422);
    state.isDown = false;
    await clock.advance(3000);
    expect(await (await elsewhere.post()).text()).toBe("charged");
    expect(runs).toHaveLength(1);
    expect(types().filter((type) => type === "stored")).toHaveLength(1);
    // The timer that all calls share stops by itself.
    await clock.advance(LEASE_MS);
    expect(clock.pending()).toBe(0);
  });

  test("only for writes of outcomes: the lease is renewed, and no other process runs the handler", async () => {
    let isFull = false;
    const { clock, post, started, elsewhere } = setUp({}, (memory) => ({
      settle: async (...values) => (isFull ? await down() : await memory.settle(...values)),
    }));
    const first = post();
    const run = await started(1);
    isFull = true;
    run.respond();
    await clock.run(first);
    for (let leases = 0; leases < 10; leases++) {
      await clock.advance(LEASE_MS);
      expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    }
    isFull = false;
    await clock.advance(3000);
    expect((await elsewhere.post()).headers.get("idempotent-replayed")).toBe("true");
  });

  test("for longer than maxRunMs: the outcome is lost, which is reported", async () => {
    const { clock, answered, events, keys } = breakable({ maxRunMs: 60_000 });
    await answered();
    await clock.advance(120_000);
    expect(events.at(-1)).toMatchObject({ type: "outcome-lost", status: 201 });
    expect(await keys.drain()).toBe(0);
    await clock.advance(LEASE_MS);
    expect(clock.pending()).toBe(0);
  });

  test("by never answering a write that it got while it was away: the write is sent again", async () => {
    let isAway = true;
    const { clock, post, started, runs, types } = setUp({}, (memory) => ({
      settle: async (...values) =>
        isAway ? await new Promise<never>(() => undefined) : await memory.settle(...values),
    }));
    const first = post();
    (await started(1)).respond(new Response("charged", { status: 201 }));
    expect((await clock.run(first)).status).toBe(201);
    isAway = false;
    await clock.advance(120_000);
    expect(types()).toEqual(["claimed", "store-failed", "stored"]);
    expect(await (await post()).text()).toBe("charged");
    expect(runs).toHaveLength(1);
  });

  test("with an error that looks like a mistake: the outcome is stored once it is corrected, and the error is reported once", async () => {
    let isMissing = true;
    const { clock, post, started, elsewhere, events } = setUp({}, (memory) => ({
      settle: async (...values) => {
        if (isMissing) throw new TypeError("no such table");
        return await memory.settle(...values);
      },
    }));
    const first = post();
    (await started(1)).respond();
    await clock.run(first);
    await clock.advance(5 * 60_000);
    isMissing = false;
    await clock.advance(5000);
    expect((await elsewhere.post()).headers.get("idempotent-replayed")).toBe("true");
    expect(events.filter(({ type }) => type === "store-failed")).toHaveLength(1);
  });

  test("for outcomes of this size: at the end only the status is stored, and no repetition runs", async () => {
    const { clock, post, started, elsewhere, types } = setUp({ maxRunMs: 60_000 }, (memory) => ({
      settle: async (key, owner, settlement) =>
        settlement.result.length > 100 ? await down() : await memory.settle(key, owner, settlement),
    }));
    const first = post();
    (await started(1)).respond(new Response("x".repeat(200), { status: 201 }));
    await clock.run(first);
    await clock.advance(120_000);
    const again = await elsewhere.post();
    expect([again.status, await codeOf(again)]).toEqual([410, "IDEMPOTENCY_RESPONSE_NOT_STORED"]);
    expect(types()).toContain("not-stored");
  });

  test("for outcomes beyond maxWaitingBytes: only their status is kept, which is reported", async () => {
    const { clock, post, started, state, elsewhere, events } = breakable({ maxWaitingBytes: 500 });
    const sent = ["one", "two"].map((key) => post("{}", { "idempotency-key": key }));
    for (const count of [1, 2]) await started(count);
    state.isDown = true;
    for (const [index, one] of sent.entries()) {
      const run = await started(index + 1);
      run.respond(new Response("x".repeat(300), { status: 201 }));
      await clock.run(one);
    }
    expect(events.filter(({ type }) => type === "not-stored")).toMatchObject([{ status: 201 }]);
    state.isDown = false;
    await clock.advance(5000);
    const statuses = ["one", "two"].map((key) => elsewhere.post("{}", { "idempotency-key": key }));
    expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([201, 410]);
  });

  test("for maxWaiting outcomes: no further request with a key is executed until one is stored", async () => {
    let isFull = true;
    const { clock, post, started, runs, events } = setUp({ maxWaiting: 1 }, (memory) => ({
      settle: async (...values) => (isFull ? await down() : await memory.settle(...values)),
    }));
    const first = post();
    (await started(1)).respond();
    await clock.run(first);
    const refused = await post("{}", { "idempotency-key": "other" });
    expect([refused.status, await codeOf(refused)]).toEqual([503, "STORE_UNAVAILABLE"]);
    expect(runs).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: "store-failed", during: "claim" });
    isFull = false;
    await clock.advance(5000);
    void post("{}", { "idempotency-key": "other" });
    await started(2);
  });

  test("once when the response is stored: the second try stores it", async () => {
    let tries = 0;
    const { clock, post, started, types } = setUp({}, (memory) => ({
      settle: async (key, owner, settlement) => {
        if (tries++ === 0) await down();
        return await memory.settle(key, owner, settlement);
      },
    }));
    const first = post();
    (await started(1)).respond();
    await clock.run(first);
    expect((await post()).headers.get("idempotent-replayed")).toBe("true");
    expect(types()).toEqual(["claimed", "stored", "replayed"]);
  });

  test("at a renewal: the next one is tried, and the request goes on", async () => {
    let tries = 0;
    const { clock, post, started, types } = setUp({}, (memory) => ({
      renew: async (key, owner, leaseMs) => {
        if (tries++ < 2) await down();
        return await memory.renew(key, owner, leaseMs);
      },
    }));
    const first = post();
    const run = await started(1);
    await clock.advance(3 * LEASE_MS);
    run.respond();
    expect((await first).status).toBe(201);
    expect(types()).toEqual(["claimed", "store-failed", "store-failed", "stored"]);
  });

  test("at some renewals, however they fall: the lease is not lost, because the next one comes soon", async () => {
    let renewals = 0;
    const { clock, post, started, elsewhere } = setUp({}, (memory) => ({
      renew: async (...values) =>
        renewals++ % 6 === 5 ? await memory.renew(...values) : await down(),
    }));
    const first = post();
    const run = await started(1);
    for (let times = 0; times < 20; times++) {
      await clock.advance(LEASE_MS / 2);
      expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    }
    run.respond();
    expect((await first).status).toBe(201);
  });

  test("by not answering a renewal: the next one is tried, and the lease is not lost", async () => {
    let renewals = 0;
    const { clock, post, started, elsewhere } = setUp({}, (memory) => ({
      renew: async (...values) =>
        renewals++ === 0
          ? await new Promise<never>(() => undefined)
          : await memory.renew(...values),
    }));
    const first = post();
    const run = await started(1);
    await clock.advance(10 * LEASE_MS);
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    run.respond();
    expect((await first).status).toBe(201);
  });

  test("at renewals for longer than the lease: no repetition runs in this process", async () => {
    const { clock, post, started, runs } = setUp({}, () => ({ renew: down }));
    const first = post();
    const run = await started(1);
    await clock.advance(3 * LEASE_MS);
    expect(await codeOf(await post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    run.respond();
    expect((await first).status).toBe(201);
    expect(runs).toHaveLength(1);
  });
});

describe("drain", () => {
  test("resolves at once if no request holds a key", async () => {
    const { post, started, keys } = setUp();
    const first = post();
    (await started(1)).respond();
    await first;
    expect(await keys.drain()).toBe(0);
  });

  test("waits for handlers to end, and for the store", async () => {
    let store = () => {};
    const isUp = new Promise<void>((resolve) => (store = resolve));
    const { post, started, keys } = setUp({}, (memory) => ({
      settle: async (...values) => {
        await isUp;
        return await memory.settle(...values);
      },
    }));
    const first = post();
    const run = await started(1);
    let isDrained = false;
    const drained = keys.drain().then((count) => {
      isDrained = true;
      return count;
    });
    await turn();
    run.respond();
    await turn();
    expect(isDrained).toBe(false);
    store();
    expect(await drained).toBe(0);
    expect((await first).status).toBe(201);
  });

  test("stores the outcomes of handlers that do not end as unknown, so that no other process repeats them", async () => {
    const { clock, post, started, keys, elsewhere } = setUp();
    void post();
    await started(1);
    const drained = keys.drain(5000);
    await clock.advance(4999);
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    await clock.advance(1);
    expect(await drained).toBe(0);
    expect(await codeOf(await elsewhere.post())).toBe("IDEMPOTENCY_OUTCOME_UNKNOWN");
  });

  test("tells how many outcomes are not stored", async () => {
    const { clock, post, started, keys } = setUp({}, () => ({
      settle: async () => {
        throw new Error("store is down");
      },
    }));
    const first = post();
    (await started(1)).respond();
    await clock.run(first);
    expect(await clock.run(keys.drain(5000))).toBe(1);
  });

  test.each([-1, Number.NaN, 3_600_001])("refuses a timeout of %d", async (timeoutMs) => {
    const { keys } = setUp();
    await expect(keys.drain(timeoutMs)).rejects.toThrow(/timeoutMs must be 0 to 3600000/);
  });
});

describe("a caller whose deadline has passed", () => {
  test("does not keep the outcome from being stored", async () => {
    const clock = virtualClock(1_700_000_000_000);
    const keys = idempotency<Request>({ store: memoryStore({ clock }), scope: () => "a", clock });
    let runs = 0;
    // A framework that writes the response in the context of the handler.
    const run = async () => {
      const begun = await keys.begin(servedFetch(request(), request()));
      if (!isRun(begun)) return begun;
      runs++;
      const serve = () => begun.respond({ status: 201, headers: [], body: new Uint8Array() });
      return await incoming({ "redrive-remaining-ms": "0" }, serve, { trust: "all", clock });
    };
    const headers = { "idempotency-key": "k" };
    const request = () => new Request("https://api.example/", { method: "POST", headers });
    await run();
    await clock.advance(LEASE_MS);
    expect((await run()).headers).toContainEqual(["Idempotent-Replayed", "true"]);
    expect(runs).toBe(1);
  });
});
