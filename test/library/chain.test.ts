/**
 * One retrying layer per chain: three real services call each other, all with retries on. If the
 * leaf is down, it is called three times instead of 27, and no service works past the first
 * caller's deadline.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type CallEvent, createFetch, incoming, type RetryOptions } from "redrive";
import { afterEach, describe, expect, test } from "vitest";

interface Hop {
  readonly origin: string;
  /** The headers of each request: the remaining time and the attempt number. */
  readonly remainingMs: number[];
  readonly attempts: (string | undefined)[];
}

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** A service that responds with the status from `serve`, which may never resolve. */
async function hop(serve: () => Promise<number> | number): Promise<Hop> {
  const remainingMs: number[] = [];
  const attempts: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const { headers } = request;
    remainingMs.push(Number(headers["redrive-remaining-ms"]));
    attempts.push(headers["redrive-attempt"]?.toString());
    const respond = (status: number) => void response.writeHead(status).end();
    const served = incoming(headers, async () => serve(), { trust: "all" });
    void served.then(respond, () => respond(502));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, remainingMs, attempts };
}

/** Client, first service, second service, leaf: three callers, each with its own retrying fetch. */
async function chain(policy: RetryOptions<Response>, leaf: () => Promise<number> | number) {
  const events: CallEvent[] = [];
  const options = { maxAttempts: 3, initialDelayMs: 1, ...policy };
  const http = createFetch({ ...options, onEvent: (event) => void events.push(event) });
  const last = await hop(leaf);
  const second = await hop(async () => (await http(last.origin)).status);
  const first = await hop(async () => (await http(second.origin)).status);
  return { http, first, second, last, events, call: () => http(first.origin) };
}

describe("with the leaf down", () => {
  test("it is called three times, not 27", async () => {
    const { call, first, second, last, events } = await chain({}, () => 503);
    expect((await call()).status).toBe(503);
    expect(first.attempts).toEqual(["1", "2", "3"]);
    expect(second.attempts).toHaveLength(3);
    expect(last.attempts).toHaveLength(3);
    const yields = events.filter(({ type }) => type === "yield");
    expect(yields).toHaveLength(6);
    expect(yields.every((event) => event.type === "yield" && event.to === "caller")).toBe(true);
  });

  test('nested: "retry" makes every layer retry: 27 calls', async () => {
    const { call, last } = await chain({ nested: "retry" }, () => 503);
    await call();
    expect(last.attempts).toHaveLength(27);
  });

  test("the outermost layer reaches a leaf that recovers", async () => {
    let calls = 0;
    const { call, last } = await chain({}, () => (++calls < 3 ? 503 : 200));
    expect((await call()).status).toBe(200);
    expect(last.attempts).toHaveLength(3);
  });
});

describe("the deadline", () => {
  test("shrinks from hop to hop and from attempt to attempt", async () => {
    const policy = { totalBudgetMs: 5000, initialDelayMs: 20, jitterType: "NONE" } as const;
    const { call, first, second, last } = await chain(policy, () => 503);
    await call();
    for (let n = 0; n < 3; n++) {
      const [a = 0, b = 0, c = 0] = [first, second, last].map((one) => one.remainingMs[n]);
      expect(a).toBeLessThanOrEqual(5000);
      expect(b).toBeLessThanOrEqual(a);
      expect(c).toBeLessThanOrEqual(b);
      expect(c).toBeGreaterThan(0);
    }
    expect(first.remainingMs[1]).toBeLessThan(first.remainingMs[0] ?? 0);
  });

  test("of the first caller ends the call to the leaf", async () => {
    // Enough time to reach the leaf on a machine that also runs eight other processes.
    const totalBudgetMs = 2000;
    const ends: number[] = [];
    const silent = () => new Promise<number>(() => undefined);
    const { first, second, last, http } = await chain({ totalBudgetMs: 60_000 }, silent);
    const startedMs = performance.now();
    const plainTimer = new Promise<number>((resolve) => {
      setTimeout(() => resolve(performance.now() - startedMs), totalBudgetMs);
    });
    const call = http(first.origin, { redrive: { totalBudgetMs, maxAttempts: 2 } });
    await call.then(
      () => expect.unreachable("the leaf never responds"),
      () => ends.push(performance.now() - startedMs),
    );
    expect(ends[0]).toBeGreaterThanOrEqual(totalBudgetMs - 1);
    // At most one sixteenth later than a plain timer of the same run, plus room for a busy machine.
    expect(ends[0]).toBeLessThan((await plainTimer) + totalBudgetMs / 2);
    for (const { remainingMs } of [first, second, last]) {
      expect(remainingMs).toHaveLength(1);
      expect(remainingMs[0]).toBeLessThanOrEqual(totalBudgetMs);
    }
  });
});

describe("reads the retry headers of other clients", () => {
  test.each([
    ["an AWS SDK", { "amz-sdk-request": "attempt=1; max=3" }],
    ["gRPC", { "grpc-previous-rpc-attempts": "1" }],
    ["Envoy", { "x-envoy-attempt-count": "2" }],
    ["a Stainless client", { "x-stainless-retry-count": "1" }],
  ])("%s", async (_, headers) => {
    const { first, last } = await chain({}, () => 503);
    await fetch(first.origin, { headers });
    expect(last.attempts).toHaveLength(1);
  });

  test.each([
    ["no retry header", {}],
    ["a count that a mesh adds to every request", { "x-envoy-attempt-count": "1" }],
    ["the count of a first attempt", { "x-stainless-retry-count": "0" }],
  ])("the first service retries if the caller sends %s", async (_, headers) => {
    const { first, last } = await chain({}, () => 503);
    await fetch(first.origin, { headers });
    expect(first.attempts).toHaveLength(1);
    expect(last.attempts).toHaveLength(3);
  });
});
