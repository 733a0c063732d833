/** Tests of the options: what is kept, what a key stands for, sweeping, and values that are refused. */
import { describe, expect, test } from "vitest";
import { forFetch } from "../serve/for-fetch.ts";
import { setUp } from "./idempotency.testing.ts";
import { idempotency } from "./idempotency.ts";
import type { IdempotencyOptions } from "./idempotency-options.ts";
import { memoryStore } from "./memory-store.ts";

describe("which responses are kept", () => {
  const statusesKept = async (statuses: readonly number[], more = {}) => {
    const kept: number[] = [];
    for (const status of statuses) {
      const { post, started } = setUp(more);
      const first = post();
      (await started(1)).respond(new Response(null, { status }));
      await first;
      const second = post();
      const isReplayed = await Promise.race([
        second.then(() => true),
        started(2).then(() => false),
      ]);
      if (isReplayed) kept.push(status);
    }
    return kept;
  };
  const all = [200, 201, 204, 301, 304, 400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503];

  test("by default all: a handler that ran may have had its effect, whatever it answers", async () => {
    expect(await statusesKept(all)).toEqual(all);
  });

  test("by your own rule", async () => {
    const keepStatus = (status: number) => status === 500;
    expect(await statusesKept(all, { keepStatus })).toEqual([500]);
  });
});

test.each([
  ["a minute", 60_000],
  ["45 days", 45 * 86_400_000],
])("a response is forgotten after its retention of %s, not before", async (_, retentionMs) => {
  const { clock, post, started } = setUp({ retentionMs });
  const first = post();
  (await started(1)).respond();
  await first;
  await clock.advance(retentionMs - 1);
  expect((await post()).headers.get("idempotent-replayed")).toBe("true");
  await clock.advance(1);
  const second = post();
  (await started(2)).respond();
  expect((await second).headers.get("idempotent-replayed")).toBeNull();
});

test("omitted headers are sent once and not stored", async () => {
  const { post, started } = setUp({ omitHeaders: ["Set-Cookie"] });
  const first = post();
  (await started(1)).respond(new Response("", { headers: { "set-cookie": "a=1", "x-b": "2" } }));
  expect((await first).headers.get("set-cookie")).toBe("a=1");
  const again = await post();
  expect([again.headers.get("set-cookie"), again.headers.get("x-b")]).toEqual([null, "2"]);
});

test("chosen headers are part of what a key stands for", async () => {
  const { post, started } = setUp({ fingerprintHeaders: ["Content-Type"] });
  const first = post("{}", { "content-type": "application/json" });
  (await started(1)).respond();
  await first;
  expect((await post("{}", { "content-type": "text/plain" })).status).toBe(422);
  expect((await post("{}", { "content-type": "application/json" })).status).toBe(201);
});

test("with quotedOnly, a bare key is refused", async () => {
  const { post } = setUp({ quotedOnly: true });
  const response = await post();
  expect(response.status).toBe(400);
  expect((await response.json()).detail).toBe(
    'Idempotency-Key must be a string in quotes, got "k"',
  );
});

test("a body that was read before is an error that says what to do", async () => {
  const keys = idempotency<Request>({ store: memoryStore(), scope: () => "caller" });
  const handler = forFetch(keys, () => new Response("done"));
  const init = { method: "POST", headers: { "idempotency-key": "k" }, body: "{}" };
  const request = new Request("https://api.example/", init);
  await request.text();
  await expect(handler(request)).rejects.toThrow(/was not kept: set fingerprintBody/);
  const own = idempotency<Request>({
    store: memoryStore(),
    scope: () => "caller",
    fingerprintBody: () => "own",
  });
  expect((await forFetch(own, () => new Response("done"))(request)).status).toBe(200);
});

test("settleIn needs a store that takes part in transactions", async () => {
  const { post, keys, started } = setUp();
  void post();
  const { request } = await started(1);
  const claim = keys.claimOf(request) as unknown as { settleIn(...values: unknown[]): void };
  expect(() => claim.settleIn({}, { status: 200 })).toThrow(/needs a store that takes part/);
});

test("expired keys are swept while new ones come, and a failing sweep is reported", async () => {
  const limits: number[] = [];
  const { clock, post, started, events } = setUp({}, () => ({
    sweep: async (limit) => {
      limits.push(limit);
      throw new Error("no");
    },
  }));
  for (let n = 1; n <= 3; n++) {
    const response = post("{}", { "idempotency-key": `key-${n}` });
    (await started(n)).respond();
    await response;
    await clock.advance(6_000);
  }
  expect(limits).toEqual([100]);
  expect(events.filter(({ type }) => type === "store-failed")).toMatchObject([{ during: "sweep" }]);
});

describe("options", () => {
  const good: IdempotencyOptions = { store: memoryStore(), scope: () => "caller" };
  test.each<[string, object, RegExp]>([
    ["no store", { store: undefined }, /store.claim must be a function, got undefined/],
    ["no scope", { scope: undefined }, /scope must be a function, got undefined/],
    [
      "a retention of 46 days",
      { retentionMs: 46 * 86_400_000 },
      /retentionMs must be 1000 to 3888000000/,
    ],
    ["a lease of half a second", { leaseMs: 500 }, /leaseMs must be 1000 to 3600000, got 500/],
    ["a fraction", { leaseMs: 1000.5 }, /leaseMs must be a whole number, got 1000.5/],
    ["too long a key", { maxKeyLength: 1025 }, /maxKeyLength must be 1 to 1024, got 1025/],
    ["too large a response", { maxResponseBytes: 2 ** 25 }, /maxResponseBytes must be 1 to/],
    ["an unknown rule", { cutOffResponse: "run" }, /cutOffResponse must be refuse or replay, got/],
    ["no place for outcomes", { maxWaiting: 0 }, /maxWaiting must be 1 to 1000000, got 0/],
    ["a retention that is a text", { retentionMs: "1h" }, /retentionMs must be .*, got "1h"/],
  ])("refuses %s", (_, more, message) => {
    expect(() => idempotency({ ...good, ...more } as IdempotencyOptions)).toThrow(message);
  });

  test.each(["", undefined, 5])("refuses the scope %j of a request", async (scope) => {
    const keys = idempotency<Request>({ ...good, scope: () => scope as string });
    const handler = forFetch(keys, () => new Response("done"));
    const init = { method: "POST", headers: { "idempotency-key": "k" } };
    await expect(handler(new Request("https://api.example/", init))).rejects.toThrow(
      /scope must return the name of the caller/,
    );
  });
});
