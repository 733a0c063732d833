/** Headers on the wire: what a real server receives when a request is retried. */
import { type CallEvent, createFetch, destination } from "redrive";
import { afterEach, describe, expect, test } from "vitest";
import { type Responder, type ScriptedServer, script, scriptedServer } from "./scripted-server.ts";

const FAST = { initialDelayMs: 1, maxAttempts: 3 } as const;

const servers: ScriptedServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(respond: Responder): Promise<ScriptedServer> {
  const server = await scriptedServer(respond);
  servers.push(server);
  return server;
}

const failingTwice = script({ status: 503 }, { status: 503 }, { status: 200 });

function headerOf({ received }: ScriptedServer, name: string): unknown[] {
  return received.map(({ headers }) => headers[name]);
}

describe("a POST with a generated key", () => {
  test("is retried, and every attempt has the same key, id and trace", async () => {
    const server = await serve(failingTwice);
    const http = createFetch(FAST, { idempotencyKey: "auto" });
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const init = { method: "POST", body: "order", headers: { traceparent } };
    expect((await http(server.origin, init)).status).toBe(200);
    for (const name of ["idempotency-key", "x-request-id", "traceparent"]) {
      const values = headerOf(server, name);
      expect(values).toHaveLength(3);
      expect(values[0]).toMatch(/^[\w-]{36,}$/);
      expect(new Set(values).size).toBe(1);
    }
    expect(headerOf(server, "redrive-attempt")).toEqual(["1", "2", "3"]);
    const remainingMs = headerOf(server, "redrive-remaining-ms").map(Number);
    // The time until each attempt times out, not until the whole call ends.
    for (const ms of remainingMs) expect(ms).toBeLessThanOrEqual(10_000);
  });

  test("has a different key from the next one", async () => {
    const server = await serve(script({ status: 200 }));
    const http = createFetch(FAST, { idempotencyKey: "auto", idempotencyHeader: "X-Once" });
    await http(server.origin, { method: "POST" });
    await http(server.origin, { method: "POST" });
    await http(server.origin);
    const [first, second, third] = headerOf(server, "x-once");
    expect(first).not.toBe(second);
    expect(third).toBeUndefined();
  });
});

test("events contain the target's own id of each request", async () => {
  const server = await serve((_, index) => ({
    status: index < 2 ? 503 : 200,
    headers: { "x-request-id": `theirs-${index}` },
  }));
  const events: CallEvent[] = [];
  const http = createFetch({ ...FAST, onEvent: (event) => void events.push(event) });
  await http(server.origin);
  const ids = events.flatMap((event) => (event.type === "attempt-failed" ? [event.requestId] : []));
  expect(ids).toEqual(["theirs-0", "theirs-1"]);
});

test("with keyByHost, a failing host does not open the breaker of a healthy one", async () => {
  const failing = await serve(script({ status: 500 }));
  const healthy = await serve(script({ status: 200 }));
  const policy = { maxAttempts: 1 } as const;
  const shop = destination("shop", { breaker: { minCalls: 2 }, policy });
  const http = createFetch(shop, { keyByHost: true });
  for (let n = 0; n < 2; n++) expect((await http(failing.origin)).status).toBe(500);
  await expect(http(failing.origin)).rejects.toMatchObject({ reason: "circuit-open" });
  expect((await http(healthy.origin)).status).toBe(200);
  expect(failing.received).toHaveLength(2);
});
