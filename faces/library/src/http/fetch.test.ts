/** Tests of createFetch on a scripted fetch: judgement, headers, keys, waits and hedges. */
import { describe, expect, test } from "vitest";
import type { CallEvent } from "../call/call-event.ts";
import type { Classify } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { rejectionOf, START_AT, world } from "../call/world.testing.ts";
import { destination } from "../destination/destination.ts";
import { lastGood } from "../destination/last-good.ts";
import { type FetchStep, flakyFetch } from "../extras/testing.ts";
import { createFetch } from "./fetch.ts";
import type { FetchOptions } from "./fetch-options.ts";

const URL_A = "http://a.example/path?q=1";
const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;

function ids(): () => string {
  let count = 0;
  return () => `id-${++count}`;
}

function scripted(steps: readonly FetchStep[], policy: object = {}, options: FetchOptions = {}) {
  const given = world("fetch");
  const { clock, random, onEvent } = given;
  const server = flakyFetch(clock, steps);
  const target = { clock, random, onEvent, ...FAST, ...policy };
  const http = createFetch(target, { fetch: server.fetch, ids: ids(), ...options });
  return { ...given, ...server, http };
}

describe("answers", () => {
  test("that are worth repeating are repeated, and the good one is given", async () => {
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200, body: "ok" }]);
    const response = await clock.run(http(URL_A));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("ok");
    expect(requests).toHaveLength(2);
  });

  test("that are not are given at once", async () => {
    for (const status of [200, 204, 301, 304, 400, 401, 404, 409]) {
      const { clock, http, requests } = scripted([{ status }]);
      expect((await clock.run(http(URL_A))).status).toBe(status);
      expect(requests).toHaveLength(1);
    }
  });

  test("run out: the last is given, with a body that can be read", async () => {
    const { clock, http, requests } = scripted([{ status: 503, body: "still down" }]);
    const response = await clock.run(http(URL_A));
    expect(response.status).toBe(503);
    expect(await response.text()).toBe("still down");
    expect(requests).toHaveLength(5);
  });

  test("that say not to come back are given at once", async () => {
    const headers = { "x-should-retry": "false" };
    const { clock, http, requests } = scripted([{ status: 503, headers }]);
    expect((await clock.run(http(URL_A))).status).toBe(503);
    expect(requests).toHaveLength(1);
  });

  test("carry the target's own request id into what is told of each attempt", async () => {
    const step = (id: string) => ({ status: 503, headers: { "x-request-id": id } });
    const { clock, http, events } = scripted([step("r1"), step("r2"), { status: 200 }]);
    await clock.run(http(URL_A));
    const failed = events.filter(({ type }) => type === "attempt-failed");
    expect(failed).toMatchObject([
      { status: 503, requestId: "r1" },
      { status: 503, requestId: "r2" },
    ]);
  });
});

describe("network errors", () => {
  test("are repeated, and end in an error that has them all", async () => {
    const { clock, http, requests } = scripted([{ status: 0 }], { maxAttempts: 3 });
    const error = await rejectionOf(clock.run(http(URL_A)));
    expect(error).toMatchObject({ reason: "attempts", cause: { message: "fetch failed" } });
    expect(requests).toHaveLength(3);
  });

  test("at which no byte left are repeated even for a POST", async () => {
    const { clock, http, requests } = scripted([{ status: 0 }, { status: 201 }]);
    expect((await clock.run(http(URL_A, { method: "POST", body: "x" }))).status).toBe(201);
    expect(requests).toHaveLength(2);
  });
});

describe("Retry-After", () => {
  const MAXIMUM = { totalBudgetMs: 600_000 };

  test.each([
    ["seconds", "7", 7000],
    ["a date", new Date(START_AT + 9000).toUTCString(), 9000],
  ])("in %s is never undercut", async (_, hint, askedMs) => {
    for (let seed = 0; seed < 20; seed++) {
      const { clock, random } = world(seed);
      const headers = { "retry-after": hint };
      const server = flakyFetch(clock, [{ status: 503, headers }, { status: 200 }]);
      const http = createFetch({ clock, random, ...MAXIMUM }, { fetch: server.fetch });
      await clock.run(http(URL_A));
      const [first = 0, second = 0] = server.calledAt;
      expect(second - first).toBeGreaterThanOrEqual(askedMs);
      expect(second - first).toBeLessThanOrEqual(askedMs * 1.1 + 100);
    }
  });

  test("longer than the budget ends the call with the answer at once", async () => {
    const headers = { "retry-after": "3600" };
    const { clock, http, requests, events } = scripted([{ status: 429, headers }]);
    expect((await clock.run(http(URL_A))).status).toBe(429);
    expect(requests).toHaveLength(1);
    expect(clock.now()).toBe(START_AT);
    expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "retry-after" });
  });

  test.each(["", "-5", "soon", "1.5"])("that is no hint (%j) is none", async (hint) => {
    const headers = { "retry-after": hint };
    const { clock, http, calledAt } = scripted([{ status: 503, headers }, { status: 200 }]);
    await clock.run(http(URL_A));
    expect((calledAt[1] ?? 0) - (calledAt[0] ?? 0)).toBe(10);
  });
});

describe("headers of ours", () => {
  test("count attempts, and keep the request's id, trace and key", async () => {
    const steps = [{ status: 503 }, { status: 502 }, { status: 200 }];
    const { clock, http, requests } = scripted(steps, {}, { idempotencyKey: "auto" });
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    await clock.run(http(URL_A, { method: "POST", body: "x", headers: { traceparent } }));
    const header = (name: string) => requests.map(({ headers }) => headers.get(name));
    expect(header("redrive-attempt")).toEqual(["1", "2", "3"]);
    expect(header("idempotency-key")).toEqual(["id-1", "id-1", "id-1"]);
    expect(header("x-request-id")).toEqual(["id-2", "id-2", "id-2"]);
    expect(header("traceparent")).toEqual([traceparent, traceparent, traceparent]);
    expect(header("redrive-remaining-ms")).toEqual(["30000", "29990", "29970"]);
  });

  test("leave the caller's own in place", async () => {
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }]);
    const headers = { "X-Request-Id": "mine", "Idempotency-Key": "my-key" };
    await clock.run(http(URL_A, { method: "POST", headers, body: "x" }));
    expect(requests.map((request) => request.headers.get("x-request-id"))).toEqual([
      "mine",
      "mine",
    ]);
    expect(requests).toHaveLength(2);
  });

  test("can be left out", async () => {
    const { clock, http, requests } = scripted([{ status: 200 }], {}, { headers: false });
    await clock.run(http(URL_A));
    expect([...(requests[0]?.headers.keys() ?? [])]).toEqual([]);
  });

  test("say nothing of retries where there will be none", async () => {
    const single = scripted([{ status: 200 }], { maxAttempts: 1 });
    await single.clock.run(single.http(URL_A));
    expect(single.requests[0]?.headers.has("redrive-attempt")).toBe(false);
    const perCall = scripted([{ status: 200 }]);
    await perCall.clock.run(perCall.http(URL_A, { redrive: { maxAttempts: 1 } }));
    expect(perCall.requests[0]?.headers.has("redrive-attempt")).toBe(false);
    const stream = scripted([{ status: 200 }]);
    const body = new Blob(["x"]).stream();
    await stream.clock.run(stream.http(URL_A, { method: "PUT", body }));
    expect(stream.requests[0]?.headers.has("redrive-attempt")).toBe(false);
  });

  test("tell of a layer further up in this process", async () => {
    const { clock, random, http, requests } = scripted([{ status: 200 }], { maxAttempts: 1 });
    const call = retry(({ signal }) => http(URL_A, { signal }), { clock, random });
    await clock.run(call);
    expect(requests[0]?.headers.get("redrive-attempt")).toBe("1");
  });
});

describe("the idempotency key", () => {
  test("is made for POST and PATCH only", async () => {
    for (const method of ["GET", "PUT", "DELETE", "POST", "PATCH", "patch"]) {
      const { clock, http, requests } = scripted([{ status: 200 }], {}, { idempotencyKey: "auto" });
      await clock.run(http(URL_A, { method }));
      const hasKey = requests[0]?.headers.has("idempotency-key");
      expect(hasKey).toBe(["POST", "PATCH"].includes(method.toUpperCase()));
    }
  });

  test("goes in the header of the caller's choice", async () => {
    const options = { idempotencyKey: "auto", idempotencyHeader: "X-Once" } as const;
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }], {}, options);
    await clock.run(http(URL_A, { method: "POST" }));
    expect(requests.map(({ headers }) => headers.get("x-once"))).toEqual(["id-1", "id-1"]);
  });

  test("is missing: a POST is sent once", async () => {
    const { clock, http, requests, events } = scripted([{ status: 503 }]);
    expect((await clock.run(http(URL_A, { method: "POST", body: "x" }))).status).toBe(503);
    expect(requests).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ reason: "not-idempotent" });
  });

  test("that is empty is none: one is made, or the POST is sent once", async () => {
    const empty = { method: "POST", headers: { "Idempotency-Key": "" } };
    const bare = scripted([{ status: 503 }]);
    await bare.clock.run(bare.http(URL_A, empty));
    expect(bare.requests).toHaveLength(1);
    const steps = [{ status: 503 }, { status: 200 }];
    const { clock, http, requests } = scripted(steps, {}, { idempotencyKey: "auto" });
    await clock.run(http(URL_A, empty));
    expect(requests.map(({ headers }) => headers.get("idempotency-key"))).toEqual(["id-1", "id-1"]);
  });

  test("may be given per request", async () => {
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }]);
    await clock.run(http(URL_A, { method: "POST", redrive: { idempotencyKey: "k9" } }));
    expect(requests.map(({ headers }) => headers.get("idempotency-key"))).toEqual(["k9", "k9"]);
  });
});

describe("a classifier", () => {
  const teapot: Classify<Response> = (ending) =>
    "value" in ending && ending.value.status === 418 ? "transient" : undefined;

  test("of the options is asked first, and undefined leaves it to the default", async () => {
    const steps = [{ status: 418 }, { status: 503 }, { status: 200 }];
    const { clock, http, requests } = scripted(steps, { classify: teapot });
    expect((await clock.run(http(URL_A))).status).toBe(200);
    expect(requests).toHaveLength(3);
  });

  test("of the destination is asked too, unless the request brings its own", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 418 }]);
    const policy = { ...FAST, maxAttempts: 2 };
    const shop = destination("shop", { clock, random, policy, classify: teapot });
    const http = createFetch(shop, { fetch: server.fetch });
    await clock.run(http(URL_A));
    expect(server.requests).toHaveLength(2);
    await clock.run(http(URL_A, { redrive: { classify: () => "terminal" } }));
    expect(server.requests).toHaveLength(3);
  });
});

describe("under a destination", () => {
  test("an answer is given when the breaker or the budget refuses a retry", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 503, body: "down" }]);
    const broken = destination("b", { clock, random, breaker: { minCalls: 1 }, policy: FAST });
    const first = await clock.run(createFetch(broken, { fetch: server.fetch })(URL_A));
    expect(await first.text()).toBe("down");
    const retryBudget = { ratio: 0, minPerSecond: 0 };
    const poor = destination("p", { clock, random, retryBudget, policy: FAST });
    const second = await clock.run(createFetch(poor, { fetch: server.fetch })(URL_A));
    expect(await second.text()).toBe("down");
    expect(server.requests).toHaveLength(2);
  });

  test("an open circuit rejects, since there is no answer to give", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 503 }]);
    const broken = destination("b", { clock, random, breaker: { minCalls: 1 }, policy: FAST });
    const http = createFetch(broken, { fetch: server.fetch });
    await clock.run(http(URL_A));
    expect(await rejectionOf(http(URL_A))).toMatchObject({ reason: "circuit-open" });
  });

  test("each host has its own breaker with keyByHost", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 500 }, { status: 200 }]);
    const breaker = { minCalls: 1 };
    const shop = destination("s", { clock, random, breaker, policy: { maxAttempts: 1 } });
    const http = createFetch(shop, { fetch: server.fetch, keyByHost: true });
    await clock.run(http("http://sick.example:81/x"));
    expect((await clock.run(http("http://well.example/x"))).status).toBe(200);
    expect(shop.stats().keys).toEqual({ "sick.example:81": "OPEN" });
  });

  test("a fallback that has nothing leaves the last answer standing", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 503, body: "down" }]);
    const fallback = lastGood({ maxAgeMs: 1000 });
    const shop = destination("s", { clock, random, fallback, policy: { ...FAST, maxAttempts: 2 } });
    const response = await clock.run(createFetch(shop, { fetch: server.fetch })(URL_A));
    expect(await response.text()).toBe("down");
  });

  test("a hedge goes to its endpoint with the same path, key and id", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 200, afterMs: 500 }, { status: 200 }]);
    const hedge = { after: 50, endpoints: ["https://b.example:8443"] };
    const shop = destination("s", { clock, random, hedge });
    const http = createFetch(shop, { fetch: server.fetch, idempotencyKey: "auto", ids: ids() });
    await clock.run(http(URL_A, { method: "POST", body: "x" }));
    expect(server.requests.map(({ url }) => url)).toEqual([
      URL_A,
      "https://b.example:8443/path?q=1",
    ]);
    const keys = server.requests.map(({ headers }) => headers.get("idempotency-key"));
    expect(keys).toEqual(["id-1", "id-1"]);
  });
});

describe("answers that nobody reads", () => {
  /** A fetch whose answers tell when they are cancelled. */
  function watched(plan: readonly (readonly [status: number, afterMs: number])[]) {
    const { clock, random } = world();
    const cancelled: number[] = [];
    let count = 0;
    const doFetch: typeof fetch = async () => {
      const index = count++;
      const [status, afterMs] = plan[index] ?? [200, 0];
      await clock.sleep(afterMs);
      const cancel = () => void cancelled.push(index);
      return new Response(new ReadableStream({ cancel }), { status });
    };
    return { clock, random, cancelled, fetch: doFetch };
  }

  test("are discarded once there is another attempt, and the last is not", async () => {
    const { clock, random, cancelled, fetch } = watched([
      [503, 1],
      [503, 1],
      [200, 1],
    ]);
    const response = await clock.run(createFetch({ clock, random, ...FAST }, { fetch })(URL_A));
    expect(cancelled).toEqual([0, 1]);
    expect(response.bodyUsed).toBe(false);
  });

  test("are discarded when a hedge wins, whichever failed first", async () => {
    const { clock, random, cancelled, fetch } = watched([
      [503, 60],
      [200, 100],
    ]);
    const shop = destination("s", { clock, random, hedge: { after: 10 } });
    const response = await clock.run(createFetch(shop, { fetch })(URL_A));
    expect(response.status).toBe(200);
    expect(cancelled).toEqual([0]);
  });

  test("of a fetch that ignores its signal are discarded when they come too late", async () => {
    const { clock, random, cancelled, fetch } = watched([
      [200, 500],
      [200, 10],
    ]);
    const shop = destination("s", { clock, random, hedge: { after: 50 } });
    const response = await clock.run(createFetch(shop, { fetch })(URL_A));
    await clock.advance(1000);
    expect(cancelled).toEqual([0]);
    expect(response.bodyUsed).toBe(false);
  });

  test("leave the winner's body alone when both copies are answered in one turn", async () => {
    const { clock, random } = world("fetch");
    const answers: ((response: Response) => void)[] = [];
    const together = () =>
      new Promise<Response>((resolve) => {
        if (answers.push(resolve) < 2) return;
        for (const [copy, answer] of answers.entries()) answer(new Response(`copy ${copy}`));
      });
    const shop = destination("s", { clock, random, hedge: { after: 10 } });
    const response = await clock.run(createFetch(shop, { fetch: together })(URL_A));
    expect(await response.text()).toBe("copy 0");
  });

  test("are discarded when the caller gives up during a wait", async () => {
    const { clock, random, cancelled, fetch } = watched([[503, 1]]);
    const controller = new AbortController();
    const http = createFetch({ clock, random, initialDelayMs: 1000 }, { fetch });
    const call = rejectionOf(http(URL_A, { signal: controller.signal }));
    await clock.advance(5);
    controller.abort(new Error("enough"));
    expect(await call).toMatchObject({ message: "enough" });
    expect(cancelled).toEqual([0]);
  });
});

test("a signal of null takes the Request's own away, as it does for fetch", async () => {
  const { clock, http } = scripted([{ status: 200 }]);
  const request = new Request(URL_A, { signal: AbortSignal.abort() });
  expect((await clock.run(http(request, { signal: null }))).status).toBe(200);
  await expect(http(request)).rejects.toMatchObject({ name: "AbortError" });
});

test("a body may be made by an async function, for each attempt anew", async () => {
  const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }]);
  let made = 0;
  await clock.run(http(URL_A, { method: "PUT", body: async () => `body ${++made}` }));
  const bodies = await Promise.all(requests.map((request) => request.text()));
  expect(bodies).toEqual(["body 1", "body 2"]);
});

test("options of one request change its policy", async () => {
  const { clock, http, requests } = scripted([{ status: 503 }]);
  await clock.run(http(URL_A, { redrive: { maxAttempts: 2 } }));
  expect(requests).toHaveLength(2);
  const error = await rejectionOf(http(URL_A, { redrive: { maxAttemps: 2 } as object }));
  expect((error as Error).message).toContain('did you mean "maxAttempts"?');
});

test("events of a fetch have no payloads", async () => {
  const secret = "s3cret";
  const { clock, http, events } = scripted([{ status: 503, body: secret }, { status: 200 }]);
  const headers = { authorization: secret };
  await clock.run(http(URL_A, { method: "PUT", body: secret, headers }));
  const told = (event: CallEvent) => JSON.stringify(event);
  expect(events.map(told).join()).not.toContain(secret);
});
