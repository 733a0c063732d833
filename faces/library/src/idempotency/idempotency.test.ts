/** Tests of leases, fenced requests and failing stores, in virtual time. */
import { describe, expect, test } from "vitest";
import { codeOf, LEASE_MS, setUp } from "./idempotency.testing.ts";
import type { RunningRequest } from "./running-request.ts";

/** As if the process were dead. */
const neverRenewed = () => ({ renew: async () => true });

describe("a lease", () => {
  test("is renewed while the handler runs, as long as that takes", async () => {
    const { clock, post, started, types } = setUp();
    const first = post();
    const run = await started(1);
    await clock.advance(10 * LEASE_MS);
    expect(await codeOf(await post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    run.respond();
    expect((await first).status).toBe(201);
    expect(types()).toEqual(["claimed", "in-progress", "stored"]);
  });

  test("is not lost when it is renewed between the commit of its response and the response", async () => {
    const { clock, keys, post, started, types } = setUp({}, ({ settle }) => ({
      settleIn: (_tx: unknown, ...values: Parameters<typeof settle>) => settle(...values),
    }));
    const first = post();
    const run = await started(1);
    const claim = keys.claimOf(run.request) as unknown as RunningRequest;
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

  test("is not renewed any more after maxRunMs, so that a handler that never ends frees its key", async () => {
    const { clock, post, started, types } = setUp({ maxRunMs: 60_000 });
    const stuck = post();
    await started(1);
    await clock.advance(60_000 + LEASE_MS);
    expect(types()).toEqual(["claimed", "run-too-long"]);
    const second = post();
    (await started(2)).respond();
    expect((await second).status).toBe(201);
    void stuck;
  });

  test("of a crashed process ends, and the next request runs", async () => {
    const { clock, post, started, events } = setUp({}, neverRenewed);
    void post();
    await started(1);
    await clock.advance(LEASE_MS - 1);
    expect(await codeOf(await post())).toBe("IDEMPOTENCY_IN_PROGRESS");
    await clock.advance(1);
    const second = post();
    (await started(2)).respond();
    expect((await second).status).toBe(201);
    expect(events.at(-2)).toMatchObject({ type: "claimed", takeovers: 1 });
  });

  test("that ended with another payload: 422, because the first request may have taken effect", async () => {
    const { clock, post, started } = setUp({}, neverRenewed);
    void post("a");
    await started(1);
    await clock.advance(LEASE_MS);
    expect((await post("b")).status).toBe(422);
  });
});

describe("a late finisher", () => {
  /** A request whose renewals fail, and a second one that has taken its key over. */
  async function overtaken() {
    let isCutOff = true;
    const all = setUp({}, ({ renew }) => ({
      renew: async (key, owner, leaseMs) => {
        if (isCutOff && owner === "owner-0") throw new Error("no connection");
        return await renew(key, owner, leaseMs);
      },
    }));
    const { clock, post, started } = all;
    const late = post();
    const run = await started(1);
    const claim = all.keys.claimOf(run.request);
    await clock.advance(LEASE_MS);
    const next = post();
    const nextRun = await started(2);
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
    expect(claim?.signal.aborted).toBe(true);
    expect(claim?.signal.reason).toMatchObject({ code: "IDEMPOTENCY_LEASE_LOST" });
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
    while (released.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(released).toEqual(["owner-0"]);
  });

  test("when the response is stored: the client still gets it, after three tries", async () => {
    let tries = 0;
    const settle = async () => {
      tries++;
      return await down();
    };
    const { clock, post, started, events } = setUp({}, () => ({ settle }));
    const first = post();
    (await started(1)).respond();
    expect((await clock.run(first)).status).toBe(201);
    expect(tries).toBe(3);
    expect(events.at(-1)).toMatchObject({ type: "store-failed", during: "settle" });
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

  test("when the key is released: the client still gets its response", async () => {
    const { clock, post, started, events } = setUp({}, () => ({ release: down }));
    const first = post();
    (await started(1)).respond(new Response("down", { status: 503 }));
    expect(await (await clock.run(first)).text()).toBe("down");
    expect(events.at(-1)).toMatchObject({ type: "store-failed", during: "release" });
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
});
