/** Tests of the overload limiter in virtual time: slots, queue, preferences, and Retry-After. */
import { seededRandom, virtualClock } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { forFetch } from "../serve/for-fetch.ts";
import { isRun, PASS_ON } from "../serve/interceptor.ts";
import {
  type OverloadEvent,
  type OverloadLimiterOptions,
  overloadLimiter,
} from "./overload-limiter.ts";

interface RunningRequest {
  readonly name: string;
  finish(status?: number): void;
  fail(): void;
}

function setUp(more: OverloadLimiterOptions<Request> = {}) {
  const clock = virtualClock(1_700_000_000_000);
  const events: OverloadEvent[] = [];
  const limiter = overloadLimiter<Request>({
    algorithm: "FIXED",
    max: 2,
    queue: 2,
    clock,
    random: seededRandom(1),
    trust: "all",
    onEvent: (event) => events.push(event),
    ...more,
  });
  const running: RunningRequest[] = [];
  const handler = forFetch(
    limiter,
    (request) =>
      new Promise<Response>((resolve, reject) => {
        const finish = (status = 200) => resolve(new Response(null, { status }));
        const fail = () => reject(new Error("broken"));
        running.push({ name: request.headers.get("x-name") ?? "", finish, fail });
      }),
  );
  const send = (name: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    handler(
      new Request("https://api.example/", {
        headers: { "x-name": name, ...headers },
        ...(signal && { signal }),
      }),
    );
  const turn = () => clock.advance(0);
  /** Ends the oldest request that runs. */
  const finishOne = async (status?: number) => {
    running.shift()?.finish(status);
    await turn();
  };
  const names = () => running.map(({ name }) => name);
  return { clock, events, limiter, running, send, turn, finishOne, names };
}

const RETRY = { "redrive-attempt": "2" };

describe("slots and queue", () => {
  test("two run, two wait, and the fifth is refused with Retry-After", async () => {
    const { send, names, finishOne, turn, limiter } = setUp({ maxQueueMs: 5000 });
    void send("a");
    void send("b");
    void send("c");
    void send("d");
    await turn();
    const refused = await send("e");
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await refused.json()).toMatchObject({ code: "SERVER_OVERLOADED", status: 503 });
    expect(names()).toEqual(["a", "b"]);
    expect(limiter.stats()).toMatchObject({ limit: 2, inFlight: 2, queued: 2, admitted: 2 });
    await finishOne();
    expect(names()).toEqual(["b", "c"]);
    await finishOne();
    await finishOne();
    await finishOne();
    expect(names()).toEqual([]);
    expect(limiter.stats()).toMatchObject({ inFlight: 0, queued: 0, admitted: 4 });
  });

  test("a handler that throws returns its slot", async () => {
    const { send, running, turn, limiter } = setUp();
    const first = send("a");
    await turn();
    running[0]?.fail();
    await expect(first).rejects.toThrow("broken");
    expect(limiter.stats().inFlight).toBe(0);
  });

  test("a request waits for maxQueueMs at most", async () => {
    const { send, clock, turn, limiter } = setUp({ max: 1, maxQueueMs: 3000 });
    void send("a");
    const waiting = send("b");
    await turn();
    await clock.advance(2999);
    expect(limiter.stats().queued).toBe(1);
    await clock.advance(1);
    expect((await waiting).status).toBe(503);
    expect(limiter.stats()).toMatchObject({ queued: 0, shed: { overload: 1 } });
  });

  test("a request whose client is gone does not wait any longer", async () => {
    const { send, turn, limiter } = setUp({ max: 1, maxQueueMs: 3000 });
    const client = new AbortController();
    void send("a");
    const gone = send("b", {}, client.signal);
    await turn();
    client.abort();
    expect((await gone).status).toBe(504);
    expect(limiter.stats().queued).toBe(0);
  });

  test("no timer remains when nothing waits", async () => {
    const { send, clock, turn, finishOne } = setUp({ max: 1, maxQueueMs: 3000 });
    void send("a");
    void send("b");
    await turn();
    await finishOne();
    await finishOne();
    expect(clock.pending()).toBe(0);
  });

  test("exempt requests are passed on", async () => {
    const { send, names, turn } = setUp({
      max: 1,
      queue: 0,
      exempt: (request) => request.header("x-name") === "health",
    });
    void send("a");
    void send("health");
    await turn();
    expect(names()).toEqual(["a", "health"]);
    expect((await send("b")).status).toBe(503);
  });
});

test("a server with one slot that was idle for an hour lets the next request wait", async () => {
  const { send, clock, turn, finishOne, names } = setUp({ max: 1, queue: 1 });
  for (let n = 0; n < 3; n++) {
    void send("a");
    await turn();
    await clock.advance(100);
    await finishOne();
    await clock.advance(3_600_000);
  }
  void send("b");
  void send("c");
  await turn();
  await finishOne();
  expect(names()).toEqual(["c"]);
});

describe("first attempts and retries", () => {
  test("a first attempt takes the place of a retry that waits", async () => {
    const { send, names, finishOne, turn, events } = setUp({ max: 1, queue: 1, maxQueueMs: 9000 });
    void send("a");
    const retry = send("retry", RETRY);
    await turn();
    void send("b");
    expect((await retry).status).toBe(503);
    expect(events).toMatchObject([{ reason: "displaced", isRetry: true }]);
    await finishOne();
    expect(names()).toEqual(["b"]);
  });

  test("first attempts that wait start before retries that came earlier", async () => {
    const { send, names, finishOne, turn } = setUp({ max: 1, queue: 3, maxQueueMs: 9000 });
    void send("a");
    void send("retry", RETRY);
    void send("b");
    await turn();
    await finishOne();
    expect(names()).toEqual(["b"]);
    await finishOne();
    expect(names()).toEqual(["retry"]);
  });

  test.each([
    ["Redrive-Attempt", "2"],
    ["amz-sdk-request", "attempt=2; max=3"],
    ["x-stainless-retry-count", "1"],
    ["grpc-previous-rpc-attempts", "1"],
    ["x-envoy-attempt-count", "2"],
  ])("%s: %s is a retry", async (name, value) => {
    const { send, events, turn } = setUp({ max: 1, queue: 0 });
    void send("a");
    await turn();
    await send("b", { [name]: value });
    expect(events).toMatchObject([{ isRetry: true }]);
  });

  test.each([
    ["Redrive-Attempt", "1"],
    ["Redrive-Attempt", "0"],
    ["Redrive-Attempt", "two"],
    ["amz-sdk-request", "attempt=1; max=3"],
    ["x-stainless-retry-count", "0"],
    ["grpc-previous-rpc-attempts", "-1"],
  ])("%s: %s is a first attempt", async (name, value) => {
    const { send, events, turn } = setUp({ max: 1, queue: 0 });
    void send("a");
    await turn();
    await send("b", { [name]: value });
    expect(events).toMatchObject([{ isRetry: false }]);
  });
});

describe("deadlines", () => {
  test("a request whose time is over is not executed", async () => {
    const { send, names } = setUp();
    const response = await send("a", { "redrive-remaining-ms": "0" });
    expect(response.status).toBe(504);
    expect(response.headers.get("retry-after")).toBeNull();
    expect(await response.json()).toMatchObject({ code: "DEADLINE_PASSED" });
    expect(names()).toEqual([]);
  });

  test("a request that would wait for longer than its client is refused at once", async () => {
    const { send, turn } = setUp({ max: 1, queue: 9, maxQueueMs: 60_000 });
    void send("a");
    await turn();
    // The server has not finished anything yet, and expects to need 100 ms.
    const response = await send("b", { "redrive-remaining-ms": "50" });
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
  });

  test("a request in the queue is dropped when its client gives up", async () => {
    const { send, clock, turn, events } = setUp({ max: 1, queue: 9, maxQueueMs: 60_000 });
    void send("a");
    await turn();
    const waiting = send("b", { "redrive-remaining-ms": "2000" });
    await clock.advance(2000);
    expect((await waiting).status).toBe(504);
    expect(events).toMatchObject([{ reason: "deadline" }]);
  });
});

describe("a client that is not trusted", () => {
  test("has no deadline, whatever its header says", async () => {
    const { send, names, turn } = setUp({ trust: "none" });
    void send("a", { "redrive-remaining-ms": "0" });
    await turn();
    expect(names()).toEqual(["a"]);
  });

  test("cannot take the places that retries have", async () => {
    const { send, names, finishOne, turn, events } = setUp({
      max: 1,
      queue: 12,
      maxQueueMs: 60_000,
      trust: (request) => request.header("x-name") === "own",
    });
    void send("a");
    await turn();
    for (let n = 0; n < 11; n++) void send(`first-${n}`);
    void send("stranger", RETRY);
    await turn();
    for (let n = 0; n < 11; n++) await finishOne();
    // With trust, a retry is served after nine first attempts at the latest.
    expect(names()).toEqual(["first-10"]);
    await finishOne();
    expect(names()).toEqual(["stranger"]);
    expect(events).toEqual([]);
  });

  test("is not believed by default", async () => {
    const limiter = overloadLimiter<Request>({ max: 1, queue: 0, algorithm: "FIXED" });
    const handler = forFetch(limiter, () => new Response("done"));
    const late = new Request("https://api.example/", { headers: { "redrive-remaining-ms": "0" } });
    expect((await handler(late)).status).toBe(200);
  });
});

test("clients that leave at once do not make the others look slow, and do not lower the limit", async () => {
  /** The limit after clients that left, and then twenty requests at a time that take 100 ms. */
  async function limitAfter(leaving: number): Promise<number> {
    const clock = virtualClock(1_700_000_000_000);
    const options = { max: 200, queue: 0, clock, random: seededRandom(1) };
    const limiter = overloadLimiter<undefined>(options);
    const begin = async () => {
      const begun = await limiter.begin({
        method: "GET",
        target: "/",
        header: () => undefined,
        body: () => ({ kind: "gone" }),
        onGone: () => undefined,
        native: undefined,
      });
      return isRun(begun) ? begun : PASS_ON;
    };
    const serve = async (count: number) => {
      const served = await Promise.all(Array.from({ length: count }, begin));
      await clock.advance(100);
      for (const one of served) one.sent(200);
    };
    for (let round = 0; round < 200; round++) {
      const left = await Promise.all(Array.from({ length: leaving }, begin));
      await clock.advance(1);
      for (const one of left) one.gone(false);
      await serve(2);
    }
    for (let round = 0; round < 200; round++) await serve(20);
    return limiter.stats().limit;
  }

  expect(await limitAfter(20)).toBe(await limitAfter(0));
});

describe("callers", () => {
  const caller = (request: { header(name: string): string | undefined }) =>
    request.header("x-account") ?? "";

  test("one caller cannot take everything, and the others are served", async () => {
    const { send, names, turn, events } = setUp({ max: 8, queue: 0, caller });
    const own = Array.from({ length: 10 }, (_, n) => send(`a${n}`, { "x-account": "a" }));
    await turn();
    expect(names()).toHaveLength(7);
    expect((await own[9])?.status).toBe(429);
    expect((await own[9])?.headers.get("retry-after")).toMatch(/^\d+$/);
    void send("b", { "x-account": "b" });
    await turn();
    expect(names()).toContain("b");
    expect(events.map(({ reason }) => reason)).toEqual(["caller", "caller", "caller"]);
  });

  test("a caller whose requests have ended has its whole share again", async () => {
    const { send, names, turn, finishOne } = setUp({ max: 8, queue: 0, caller });
    for (let round = 0; round < 3; round++) {
      for (let n = 0; n < 7; n++) void send("a", { "x-account": "a" });
      await turn();
      expect(names()).toHaveLength(7);
      for (let n = 0; n < 7; n++) await finishOne();
    }
  });
});

describe("Retry-After", () => {
  test("follows the pace of the server and spreads the clients", async () => {
    const { send, clock, running, turn } = setUp({ max: 10, queue: 0 });
    // The server finishes a request every 100 ms, and is never idle.
    for (let n = 0; n < 10; n++) void send("a");
    await turn();
    for (let n = 0; n < 100; n++) {
      await clock.advance(100);
      running.shift()?.finish();
      await turn();
      void send("a");
      await turn();
    }
    const seconds: number[] = [];
    for (let n = 0; n < 50; n++) {
      seconds.push(Number((await send("b", RETRY)).headers.get("retry-after")));
    }
    // First attempts take all of the capacity, so the clients that return get a fifth: 2 per second.
    const perSecond = seconds.map((value) => seconds.filter((other) => other === value).length);
    expect(Math.max(...perSecond)).toBeLessThanOrEqual(3);
    expect(Math.max(...seconds)).toBeGreaterThanOrEqual(24);
    expect(Math.max(...seconds)).toBeLessThanOrEqual(27);
  });

  test("is never longer than maxRetryAfterMs", async () => {
    const { send, turn } = setUp({ max: 1, queue: 0, maxRetryAfterMs: 5000 });
    void send("a");
    await turn();
    const seconds: number[] = [];
    for (let n = 0; n < 100; n++) {
      seconds.push(Number((await send("b")).headers.get("retry-after")));
    }
    expect(Math.max(...seconds)).toBe(5);
    expect(new Set(seconds.slice(20)).size).toBeGreaterThan(1);
  });
});

test("the limit falls when requests take longer, and requests that fail do not count", async () => {
  const { send, clock, running, turn, limiter } = setUp({
    algorithm: "GRADIENT",
    max: 100,
    queue: 0,
  });
  const load = async (seconds: number, ms: number, status: number) => {
    for (let round = 0; round < (seconds * 1000) / ms; round++) {
      for (let n = 0; n < 30; n++) void send("a");
      await turn();
      await clock.advance(ms);
      for (const one of running.splice(0)) one.finish(status);
      await turn();
    }
  };
  await load(10, 100, 200);
  const before = limiter.stats().limit;
  await load(1, 10, 500);
  expect(limiter.stats().limit).toBe(before);
  await load(20, 1000, 200);
  expect(limiter.stats().limit).toBeLessThan(before / 2);
});

describe("options", () => {
  test.each<[string, object, RegExp]>([
    ["max 0", { max: 0 }, /max must be 1 to 100000, got 0/],
    ["half a slot", { max: 1.5 }, /max must be a whole number, got 1.5/],
    ["a negative queue", { queue: -1 }, /queue must be 0 to 100000, got -1/],
    ["a queue of two minutes", { maxQueueMs: 120_000 }, /maxQueueMs must be 1 to 60000/],
    ["a short maximum", { maxRetryAfterMs: 10 }, /maxRetryAfterMs must be 1000 to 3600000/],
    ["a trust of true", { trust: true }, /trust must be none, all or a function, got true/],
    ["an unknown algorithm", { algorithm: "GUESS" }, /algorithm must be one of .*, got "GUESS"/],
  ])("refuses %s", (_, options, message) => {
    expect(() => overloadLimiter(options)).toThrow(message);
  });
});
