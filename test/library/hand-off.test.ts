/** Hand-off with a real service and target: a failed call is delivered later, exactly once. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import {
  createFetch,
  type DestinationInput,
  destination,
  incoming,
  type RedriveError,
} from "redrive";
import { type HandOffOptions, handOff, handOffErrorOf, type Ticket } from "redrive/hand-off";
import { flakyFetch, virtualClock } from "redrive/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  endings,
  openTarget,
  openTestServer,
  type TestServer,
  type TestServerOptions,
} from "../http/test-server.ts";
import { scriptedServer } from "./scripted-server.ts";

const FAST = { initialDelayMs: 1, maxAttempts: 2 } as const;

let service: TestServer;
const closers: (() => Promise<void>)[] = [];
beforeEach(async () => {
  await open({});
});
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function open(options: TestServerOptions): Promise<void> {
  service = await openTestServer(options);
  closers.push(service.close);
}

function shop(options: Partial<HandOffOptions> = {}, more: DestinationInput = {}) {
  const refusals: unknown[] = [];
  const onRefused = (error: unknown) => refusals.push(error);
  const onExhausted = handOff({ url: service.url, onRefused, ...options });
  return { refusals, shop: destination("shop", { policy: FAST, onExhausted, ...more }) };
}

const tasks = async () => (await service.call({ method: "GET", path: "/retry-tasks" })).json.tasks;
const post = (body: BodyInit, headers = {}) => ({
  method: "POST",
  body,
  headers: { "idempotency-key": "order-17", ...headers },
});

describe("a fetch that is handed off", () => {
  test("gets 202 with the task's location, and arrives with the same bytes and key", async () => {
    service.target.statuses = [503, 503, 200];
    const bytes = crypto.getRandomValues(new Uint8Array(40_000));
    const delivered = endings(service.redrive, 1);
    const http = createFetch(shop().shop);
    const response = await http(service.target.url, post(bytes, { "x-tenant": "blue" }));
    expect(response.status).toBe(202);
    const ticket: Ticket = await response.json();
    expect(response.headers.get("location")).toBe(`${service.url}/retry-tasks/${ticket.taskId}`);
    await delivered;
    expect(service.target.received).toHaveLength(3);
    for (const { body, headers } of service.target.received) {
      expect(body.equals(bytes)).toBe(true);
      expect(headers).toMatchObject({ "idempotency-key": "order-17", "x-tenant": "blue" });
    }
    const { status } = await (await fetch(ticket.location)).json();
    expect(status).toBe("SUCCEEDED");
  });

  test.each([
    ["a text", "grüße", "text/plain;charset=UTF-8"],
    [
      "a form",
      new URLSearchParams({ a: "1 2" }),
      "application/x-www-form-urlencoded;charset=UTF-8",
    ],
    ["a blob", new Blob(["{}"], { type: "application/json" }), "application/json"],
  ])("keeps the content type of %s", async (_, body, type) => {
    service.target.statuses = [503, 503];
    const delivered = endings(service.redrive, 1);
    await createFetch(shop().shop)(service.target.url, post(body));
    await delivered;
    const [first, , last] = service.target.received;
    expect(last?.headers["content-type"]).toBe(type);
    expect(last?.body.equals(first?.body ?? Buffer.of())).toBe(true);
  });

  test("creates one task for two calls with one key", async () => {
    service.target.statuses = [503, 503, 503, 503, 503];
    const http = createFetch(shop().shop);
    const first = await http(service.target.url, post("x"));
    const second = await http(service.target.url, post("x"));
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(await tasks()).toHaveLength(1);
  });

  test.each([
    ["the largest one in a task", 65_536],
    ["the smallest one in the blob store", 65_537],
    ["more than JSON could hold", 2_000_000],
  ])("a body of any size arrives with the same bytes: %s", async (_, length) => {
    const folder = await mkdtemp(join(tmpdir(), "redrive-hand-off-"));
    closers.push(() => rm(folder, { recursive: true }));
    await open({ blobs: `file:${folder}` });
    service.target.statuses = [503, 503];
    const delivered = endings(service.redrive, 1);
    const bytes = Buffer.alloc(length, "abcdefg");
    const { shop: api, refusals } = shop();
    const request = post(bytes, { "content-type": "video/mp4" });
    expect((await createFetch(api)(service.target.url, request)).status).toBe(202);
    expect(refusals).toEqual([]);
    await delivered;
    const [, , last] = service.target.received;
    expect(last?.body.equals(bytes)).toBe(true);
    expect(last?.headers["content-type"]).toBe("video/mp4");
    expect((await tasks())[0].bodyRef === null).toBe(length <= 65_536);
  });

  test("is not limited by the deadline that ended it", async () => {
    const { shop: api, refusals } = shop({}, { policy: { maxAttempts: 1 } });
    const headers = { "redrive-remaining-ms": "400" };
    const charge = () => new Promise<never>(() => undefined);
    const request = { url: service.target.url, method: "PUT" };
    const call = () => api.run<Ticket>(charge, { request });
    const ticket = await incoming(headers, call, { trust: "all" });
    expect(refusals).toEqual([]);
    expect(ticket.taskId).toMatch(/./);
    expect(await tasks()).toHaveLength(1);
  });

  test("needs no key if its method is idempotent, and uses the given policy", async () => {
    service.target.statuses = [503, 503];
    const delivered = endings(service.redrive, 1);
    const { shop: named } = shop({ policyId: "webhook", labels: { by: "test" }, destination: "d" });
    expect((await createFetch(named)(service.target.url, { method: "PUT" })).status).toBe(202);
    await delivered;
    const expected = {
      policyId: "webhook",
      labels: { by: "test" },
      destination: "d",
      method: "PUT",
    };
    expect(await tasks()).toMatchObject([expected]);
  });
});

describe("not handed off", () => {
  test("a POST without a key: it ends as without hand-off", async () => {
    service.target.statuses = [503];
    const response = await createFetch(shop().shop)(service.target.url, {
      method: "POST",
      body: "x",
    });
    expect(response.status).toBe(503);
    expect(await tasks()).toEqual([]);
  });

  test("a consumed stream, and a client error", async () => {
    service.target.statuses = [503, 404];
    const http = createFetch(shop().shop);
    const stream = new Blob(["x"]).stream();
    const sent = await http(service.target.url, { ...post("x"), body: stream });
    expect(sent.status).toBe(503);
    expect((await http(service.target.url, post("x"))).status).toBe(404);
    expect(await tasks()).toEqual([]);
  });

  test("a call below another retrying layer: that layer retries it", async () => {
    service.target.statuses = [503];
    const http = createFetch(shop().shop);
    const headers = { "redrive-attempt": "1" };
    const call = () => http(service.target.url, post("x"));
    const response = await incoming(headers, call, { trust: "all" });
    expect(response.status).toBe(503);
    expect(service.target.received).toHaveLength(1);
    expect(await tasks()).toEqual([]);
  });

  test("a task that the service rejects: the call fails, and onRefused gets the error", async () => {
    service.target.statuses = [503, 503];
    const { shop: misconfigured, refusals } = shop({ policyId: "no-such-policy" });
    expect((await createFetch(misconfigured)(service.target.url, post("x"))).status).toBe(503);
    expect(refusals).toMatchObject([{ code: "HAND_OFF_REFUSED" }]);
    expect((refusals[0] as RedriveError).message).toMatch(/422.*no-such-policy/);
  });

  test("a task for a service that is down: the call fails with its own error", async () => {
    const down = await scriptedServer(() => undefined);
    await down.close();
    const { shop: offline, refusals } = shop({ url: down.origin });
    const failing = offline.run(() => Promise.reject(new Error("down")), {
      request: { url: service.target.url },
      idempotencyKey: "k",
    });
    await expect(failing).rejects.toMatchObject({ code: "GAVE_UP", reason: "attempts" });
    expect(refusals).toHaveLength(1);
  });

  test("both causes are kept: those of the call and of the hand-off", async () => {
    const { shop: misconfigured, refusals } = shop({ policyId: "no-such-policy" });
    const cause = new Error("the target is down");
    const failing = misconfigured.run(() => Promise.reject(cause), {
      request: { url: service.target.url },
      idempotencyKey: "k",
    });
    const error = await failing.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "GAVE_UP", reason: "attempts", cause });
    expect(refusals).toEqual([handOffErrorOf(error)]);
    expect(handOffErrorOf(error)).toMatchObject({ code: "HAND_OFF_REFUSED" });
    expect(inspect(error)).toMatch(/target is down[\s\S]*no-such-policy/);
  });

  test("a call with one attempt keeps its own error, also if that cannot be changed", async () => {
    const { shop: api, refusals } = shop(
      { policyId: "no-such-policy" },
      { policy: { maxAttempts: 1 } },
    );
    const options = { request: { url: service.target.url }, idempotencyKey: "k" };
    const cause = new Error("the target is down");
    await expect(api.run(() => Promise.reject(cause), options)).rejects.toBe(cause);
    expect(handOffErrorOf(cause)).toBe(refusals[0]);
    const frozen = Object.freeze(new Error("frozen"));
    await expect(api.run(() => Promise.reject(frozen), options)).rejects.toBe(frozen);
    expect(refusals).toHaveLength(2);
  });

  test("a large body for a service without a blob store", async () => {
    service.target.statuses = [503, 503];
    const { shop: api, refusals } = shop();
    const response = await createFetch(api)(service.target.url, post("x".repeat(65_537)));
    expect(response.status).toBe(503);
    expect((refusals[0] as RedriveError).message).toMatch(/answered 413: /);
    expect(await tasks()).toEqual([]);
  });

  test("headers that the service sets itself: they are dropped, and the call is handed off", async () => {
    const { shop: own, refusals } = shop();
    const names =
      "connection keep-alive te trailer transfer-encoding upgrade expect host content-length";
    const more =
      "proxy-authorization redrive-attempt webhook-id webhook-timestamp webhook-signature";
    const reserved = `${names} ${more} idempotency-key`.split(" ").map((name) => [name, "1"]);
    const request = { url: service.target.url, headers: Object.fromEntries(reserved) };
    const failing = () => Promise.reject(new Error("down"));
    const ticket = await own.run<unknown>(failing, { request, idempotencyKey: "k" });
    expect(ticket).toMatchObject({ taskId: expect.any(String) });
    expect(refusals).toEqual([]);
  });
});

describe("a call with a request description", () => {
  test("returns a ticket, also with an open breaker", async () => {
    const { shop: careful } = shop({}, { breaker: { minCalls: 1 } });
    const charge = () => Promise.reject(Object.assign(new Error("down"), { status: 503 }));
    const run = async (order: string) => {
      const delivered = endings(service.redrive, 1);
      const request = { url: service.target.url, body: order, headers: { "x-order": order } };
      const result = await careful.run<unknown>(charge, { request, idempotencyKey: order });
      await delivered;
      return result as Ticket;
    };
    const tickets = [await run("a"), await run("b")];
    expect(careful.stats().refused).toBe(1);
    expect(tickets.map(({ taskId }) => taskId)).toEqual(
      (await tasks()).map(({ taskId }: Ticket) => taskId).toReversed(),
    );
    expect(service.target.received.map(({ headers }) => headers["x-order"])).toEqual(["a", "b"]);
  });
});

test("the hand-off sends the API key to the service", async () => {
  const authorizations: (string | undefined)[] = [];
  const fakeService = await scriptedServer(({ headers }) => {
    authorizations.push(headers.authorization);
    return { status: 202, body: '{"taskId":"t","status":"PENDING"}' };
  });
  closers.push(fakeService.close);
  service.target.statuses = [503, 503];
  const { shop: keyed } = shop({ url: fakeService.origin, apiKey: "rk_1" });
  const response = await createFetch(keyed)(service.target.url, post("x"));
  expect(authorizations).toEqual(["Bearer rk_1"]);
  expect(response.headers.get("location")).toBe(`${fakeService.origin}/retry-tasks/t`);
});

test.each<unknown>(["", "not an address", "ftp://service", 7])(
  "handOff rejects the address %j",
  (url) => {
    expect(() => handOff({ url: url as string })).toThrow(
      /url must be the service's http or https address/,
    );
  },
);

test("both are down: in virtual time, three attempts to hand off, then the call's own error", async () => {
  const clock = virtualClock();
  const target = flakyFetch(clock, [{ status: 0 }]);
  const refused = flakyFetch(clock, [{ status: 503 }]);
  const onExhausted = handOff({ url: "http://127.0.0.1:7337", fetch: refused.fetch, clock });
  const down = destination("shop", { policy: FAST, onExhausted, clock });
  const call = createFetch(down, { fetch: target.fetch })("http://shop.example/", post("x"));
  const error = await clock.run(call.catch((thrown: unknown) => thrown));
  expect(error).toMatchObject({ code: "GAVE_UP", reason: "attempts" });
  expect(handOffErrorOf(error)).toMatchObject({ code: "HAND_OFF_REFUSED" });
  expect(refused.requests).toHaveLength(3);
});

test("a call adds labels and a callback of its own to those of all calls", async () => {
  const ends = await openTarget();
  closers.push(ends.close);
  const { shop: labeled } = shop({
    labels: { team: "pay", kind: "any" },
    callbackUrl: "http://127.0.0.1:9/",
  });
  const request = {
    url: service.target.url,
    body: "x",
    callbackUrl: ends.url,
    labels: { kind: "charge" },
  };
  const charge = () => Promise.reject(Object.assign(new Error("down"), { status: 503 }));
  // The task and its callback.
  const ended = endings(service.redrive, 2);
  await labeled.run<unknown>(charge, { request, idempotencyKey: "order-1" });
  await ended;
  const [task] = (await tasks()).filter(
    ({ targetUrl }: { targetUrl: string }) => targetUrl === service.target.url,
  );
  expect(task.labels).toEqual({ team: "pay", kind: "charge" });
  expect(JSON.parse(ends.received[0]?.body.toString() ?? "")).toMatchObject({
    status: "SUCCEEDED",
  });
});
