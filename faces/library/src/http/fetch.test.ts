/**
 * Tests of createFetch on a scripted fetch: classification, headers, keys, waits and hedges.
 * Tests of bodies: a repeatable body is the same every time, and others are marked.
 */

import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { CallEvent } from "../call/call-event.ts";
import type { Body, Classify } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { rejectionOf, START_AT, world } from "../call/world.testing.ts";
import { destination } from "../destination/destination.ts";
import { lastGood } from "../destination/last-success-fallback.ts";
import { type FetchStep, flakyFetch } from "../testing.ts";
import {
  createFetch,
  type FetchOptions,
  type ReplayableBody,
  replayableBody,
  requestBody,
} from "./fetch.ts";

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

describe("responses", () => {
  test("that are retryable are retried, and the good one is returned", async () => {
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200, body: "ok" }]);
    const response = await clock.run(http(URL_A));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("ok");
    expect(requests).toHaveLength(2);
  });

  test("that are not retryable are returned at once", async () => {
    for (const status of [200, 204, 301, 304, 400, 401, 404, 409]) {
      const { clock, http, requests } = scripted([{ status }]);
      expect((await clock.run(http(URL_A))).status).toBe(status);
      expect(requests).toHaveLength(1);
    }
  });

  test("the last one is returned with a readable body when attempts run out", async () => {
    const { clock, http, requests } = scripted([{ status: 503, body: "still down" }]);
    const response = await clock.run(http(URL_A));
    expect(response.status).toBe(503);
    expect(await response.text()).toBe("still down");
    expect(requests).toHaveLength(5);
  });

  test("that forbid a retry are returned at once", async () => {
    const headers = { "x-should-retry": "false" };
    const { clock, http, requests } = scripted([{ status: 503, headers }]);
    expect((await clock.run(http(URL_A))).status).toBe(503);
    expect(requests).toHaveLength(1);
  });

  test("pass the server's request id to the events of each attempt", async () => {
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
  test("are retried, and end in an error that has them all", async () => {
    const { clock, http, requests } = scripted([{ status: 0 }], { maxAttempts: 3 });
    const error = await rejectionOf(clock.run(http(URL_A)));
    expect(error).toMatchObject({ reason: "attempts", cause: { message: "fetch failed" } });
    expect(requests).toHaveLength(3);
  });

  test("before any byte was sent are retried even for a POST", async () => {
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
  ])("in %s is always honored", async (_, hint, askedMs) => {
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

  test("longer than the budget ends the call with the response at once", async () => {
    const headers = { "retry-after": "3600" };
    const { clock, http, requests, events } = scripted([{ status: 429, headers }]);
    expect((await clock.run(http(URL_A))).status).toBe(429);
    expect(requests).toHaveLength(1);
    expect(clock.now()).toBe(START_AT);
    expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "retry-after" });
  });

  test.each(["", "-5", "soon", "1.5"])("that is invalid (%j) is ignored", async (hint) => {
    const headers = { "retry-after": hint };
    const { clock, http, calledAt } = scripted([{ status: 503, headers }, { status: 200 }]);
    await clock.run(http(URL_A));
    expect((calledAt[1] ?? 0) - (calledAt[0] ?? 0)).toBe(10);
  });
});

describe("our headers", () => {
  test("count attempts and keep the request's id, trace and key", async () => {
    const steps = [{ status: 503 }, { status: 502 }, { status: 200 }];
    const { clock, http, requests } = scripted(steps, {}, { idempotencyKey: "auto" });
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    await clock.run(http(URL_A, { method: "POST", body: "x", headers: { traceparent } }));
    const header = (name: string) => requests.map(({ headers }) => headers.get(name));
    expect(header("redrive-attempt")).toEqual(["1", "2", "3"]);
    expect(header("idempotency-key")).toEqual(["id-1", "id-1", "id-1"]);
    expect(header("x-request-id")).toEqual(["id-2", "id-2", "id-2"]);
    expect(header("traceparent")).toEqual([traceparent, traceparent, traceparent]);
    expect(header("redrive-remaining-ms")).toEqual(["10000", "10000", "10000"]);
  });

  test("keep those of the caller", async () => {
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }]);
    const headers = { "X-Request-Id": "mine", "Idempotency-Key": "my-key" };
    await clock.run(http(URL_A, { method: "POST", headers, body: "x" }));
    expect(requests.map((request) => request.headers.get("x-request-id"))).toEqual([
      "mine",
      "mine",
    ]);
    expect(requests).toHaveLength(2);
  });

  test("can be turned off", async () => {
    const { clock, http, requests } = scripted([{ status: 200 }], {}, { headers: false });
    await clock.run(http(URL_A));
    expect([...(requests[0]?.headers.keys() ?? [])]).toEqual([]);
  });

  test("do not announce retries if there are none", async () => {
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

  test("announce the retries of an outer layer in this process", async () => {
    const { clock, random, http, requests } = scripted([{ status: 200 }], { maxAttempts: 1 });
    const call = retry(({ signal }) => http(URL_A, { signal }), { clock, random });
    await clock.run(call);
    expect(requests[0]?.headers.get("redrive-attempt")).toBe("1");
  });
});

describe("the idempotency key", () => {
  test("is created for POST and PATCH only", async () => {
    for (const method of ["GET", "PUT", "DELETE", "POST", "PATCH", "patch"]) {
      const { clock, http, requests } = scripted([{ status: 200 }], {}, { idempotencyKey: "auto" });
      await clock.run(http(URL_A, { method }));
      const hasKey = requests[0]?.headers.has("idempotency-key");
      expect(hasKey).toBe(["POST", "PATCH"].includes(method.toUpperCase()));
    }
  });

  test("is sent in the header that the caller chooses", async () => {
    const options = { idempotencyKey: "auto", idempotencyHeader: "X-Once" } as const;
    const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }], {}, options);
    await clock.run(http(URL_A, { method: "POST" }));
    expect(requests.map(({ headers }) => headers.get("x-once"))).toEqual(["id-1", "id-1"]);
  });

  test("is absent: a POST is sent once", async () => {
    const { clock, http, requests, events } = scripted([{ status: 503 }]);
    expect((await clock.run(http(URL_A, { method: "POST", body: "x" }))).status).toBe(503);
    expect(requests).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ reason: "not-idempotent" });
  });

  test("that is empty counts as absent: one is created, or the POST is sent once", async () => {
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

  test("of the options is called first, and undefined means the default", async () => {
    const steps = [{ status: 418 }, { status: 503 }, { status: 200 }];
    const { clock, http, requests } = scripted(steps, { classify: teapot });
    expect((await clock.run(http(URL_A))).status).toBe(200);
    expect(requests).toHaveLength(3);
  });

  test("of the destination is called too, unless the request has its own", async () => {
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
  test("the response is returned when the breaker or the budget refuses a retry", async () => {
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

  test("an open circuit rejects, because there is no response", async () => {
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

  test("a fallback that declines leaves the last response", async () => {
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

test("a signal of null removes the Request's own, as in fetch", async () => {
  const { clock, http } = scripted([{ status: 200 }]);
  const request = new Request(URL_A, { signal: AbortSignal.abort() });
  expect((await clock.run(http(request, { signal: null }))).status).toBe(200);
  await expect(http(request)).rejects.toMatchObject({ name: "AbortError" });
});

test("an async function can create the body for each attempt", async () => {
  const { clock, http, requests } = scripted([{ status: 503 }, { status: 200 }]);
  let made = 0;
  await clock.run(http(URL_A, { method: "PUT", body: async () => `body ${++made}` }));
  const bodies = await Promise.all(requests.map((request) => request.text()));
  expect(bodies).toEqual(["body 1", "body 2"]);
});

test("options of one request override its policy", async () => {
  const { clock, http, requests } = scripted([{ status: 503 }]);
  await clock.run(http(URL_A, { redrive: { maxAttempts: 2 } }));
  expect(requests).toHaveLength(2);
  const error = await rejectionOf(http(URL_A, { redrive: { maxAttemps: 2 } as object }));
  expect((error as Error).message).toContain('did you mean "maxAttempts"?');
  const foreign = await rejectionOf(http(URL_A, { redrive: { retries: 3 } as object }));
  expect((foreign as Error).message).toContain('did you mean "maxAttempts: 4"?');
});

test("events of a fetch have no payloads", async () => {
  const secret = "s3cret";
  const { clock, http, events } = scripted([{ status: 503, body: secret }, { status: 200 }]);
  const headers = { authorization: secret };
  await clock.run(http(URL_A, { method: "PUT", body: secret, headers }));
  const json = (event: CallEvent) => JSON.stringify(event);
  expect(events.map(json).join()).not.toContain(secret);
});

/** What a server would receive. */
async function bytesOf(body: ReturnType<ReplayableBody["next"]>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(await body).arrayBuffer());
}

function form(): FormData {
  const data = new FormData();
  data.set("name", "Åsa");
  data.set("file", new Blob(["content"]), "a.txt");
  return data;
}

describe("a body that can be repeated", () => {
  const bodies: readonly [string, () => Body][] = [
    ["text", () => "text ✓"],
    ["bytes", () => new Uint8Array([0, 1, 255])],
    ["a view into a larger buffer", () => new Uint8Array(new ArrayBuffer(8), 2, 4).fill(7)],
    ["an ArrayBuffer", () => new Uint8Array([1, 2, 3]).buffer],
    ["a Blob", () => new Blob(["blob"])],
    ["search parameters", () => new URLSearchParams({ q: "a b" })],
    ["a form", form],
    ["a factory of streams", () => () => new Blob(["streamed"]).stream()],
  ];
  test.each(bodies)("%s is the same every time", async (_, make) => {
    const body = await replayableBody(make());
    expect(body.canRepeat).toBe(true);
    const first = await bytesOf(body.next());
    expect(first.length).toBeGreaterThan(0);
    expect(await bytesOf(body.next())).toEqual(first);
  });

  test("is not affected by later changes of the caller's buffer", async () => {
    const bytes = new Uint8Array([1, 2, 3]);
    const parameters = new URLSearchParams({ q: "1" });
    const [copied, kept] = [await replayableBody(bytes), await replayableBody(parameters)];
    bytes.fill(0);
    parameters.set("q", "2");
    expect(await bytesOf(copied.next())).toEqual(new Uint8Array([1, 2, 3]));
    expect(await new Response(await kept.next()).text()).toBe("q=1");
  });

  test("a form keeps one boundary", async () => {
    const body = await replayableBody(form());
    const boundary = /boundary=(.*)$/.exec(body.contentType ?? "")?.[1];
    expect(boundary).toBeDefined();
    expect(new TextDecoder().decode(await bytesOf(body.next()))).toContain(boundary);
  });
});

describe("a body that cannot be repeated", () => {
  test("is a web stream or a Node stream", async () => {
    expect((await replayableBody(new Blob(["x"]).stream())).canRepeat).toBe(false);
    const readable = Readable.from(["x"]) as unknown as Body;
    expect((await replayableBody(readable)).canRepeat).toBe(false);
  });
});

test("an absent body stays absent", async () => {
  for (const body of [null, undefined]) {
    const replay = await replayableBody(body);
    expect(replay).toMatchObject({ canRepeat: true, contentType: undefined });
    expect(replay.next()).toBeNull();
  }
});

describe("the body of a Request", () => {
  test("is read once and repeated", async () => {
    const request = new Request("http://a.example/", { method: "POST", body: "data" });
    const body = await requestBody(request);
    expect(await new Response(await body.next()).text()).toBe("data");
    expect(await new Response(await body.next()).text()).toBe("data");
  });

  test("of a GET is absent, also in runtimes that do not expose bodies", async () => {
    const hidden = new Proxy(new Request("http://a.example/"), {
      get: (request, name) => (name === "body" ? undefined : Reflect.get(request, name, request)),
    });
    expect((await requestBody(hidden)).next()).toBeNull();
  });
});
