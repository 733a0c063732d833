/** Hand-off with a real service and a real target: what was given up is delivered later, once. */
import {
  createFetch,
  type DestinationInput,
  destination,
  incoming,
  type RedriveError,
} from "redrive";
import { type HandOffOptions, handOff, type Ticket } from "redrive/hand-off";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endings, type Front, type FrontOptions, openFront } from "../http/test-server.ts";
import { scriptedServer } from "./scripted-server.ts";

const FAST = { initialDelayMs: 1, maxAttempts: 2 } as const;

let front: Front;
const closing: (() => Promise<void>)[] = [];
beforeEach(async () => {
  await open({});
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function open(options: FrontOptions): Promise<void> {
  front = await openFront(options);
  closing.push(front.close);
}

function shop(options: Partial<HandOffOptions> = {}, more: DestinationInput = {}) {
  const refusals: unknown[] = [];
  const onRefused = (error: unknown) => refusals.push(error);
  const onExhausted = handOff({ url: front.url, onRefused, ...options });
  return { refusals, shop: destination("shop", { policy: FAST, onExhausted, ...more }) };
}

const tasks = async () => (await front.call({ method: "GET", path: "/retry-tasks" })).json.tasks;
const post = (body: BodyInit, headers = {}) => ({
  method: "POST",
  body,
  headers: { "idempotency-key": "order-17", ...headers },
});

describe("a fetch that is handed over", () => {
  test("is answered with 202 and the task's place, and arrives with the same bytes and key", async () => {
    front.target.statuses = [503, 503, 200];
    const bytes = crypto.getRandomValues(new Uint8Array(40_000));
    const delivered = endings(front.redrive, 1);
    const http = createFetch(shop().shop);
    const answer = await http(front.target.url, post(bytes, { "x-tenant": "blue" }));
    expect(answer.status).toBe(202);
    const ticket: Ticket = await answer.json();
    expect(answer.headers.get("location")).toBe(`${front.url}/retry-tasks/${ticket.taskId}`);
    await delivered;
    expect(front.target.received).toHaveLength(3);
    for (const { body, headers } of front.target.received) {
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
    front.target.statuses = [503, 503];
    const delivered = endings(front.redrive, 1);
    await createFetch(shop().shop)(front.target.url, post(body));
    await delivered;
    const [first, , last] = front.target.received;
    expect(last?.headers["content-type"]).toBe(type);
    expect(last?.body.equals(first?.body ?? Buffer.of())).toBe(true);
  });

  test("twice with one key is one task", async () => {
    front.target.statuses = [503, 503, 503, 503, 503];
    const http = createFetch(shop().shop);
    const first = await http(front.target.url, post("x"));
    const second = await http(front.target.url, post("x"));
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(await tasks()).toHaveLength(1);
  });

  test("is not bound by the deadline that ended it", async () => {
    const { shop: api, refusals } = shop({}, { policy: { maxAttempts: 1 } });
    const headers = { "redrive-remaining-ms": "400" };
    const charge = () => new Promise<never>(() => undefined);
    const request = { url: front.target.url, method: "PUT" };
    const ticket = await incoming(headers, () => api.run<Ticket>(charge, { request }));
    expect(refusals).toEqual([]);
    expect(ticket.taskId).toMatch(/./);
    expect(await tasks()).toHaveLength(1);
  });

  test("needs no key if its method may be repeated, and asks the policy it is told", async () => {
    front.target.statuses = [503, 503];
    const delivered = endings(front.redrive, 1);
    const { shop: named } = shop({ policyId: "webhook", labels: { by: "test" }, destination: "d" });
    expect((await createFetch(named)(front.target.url, { method: "PUT" })).status).toBe(202);
    await delivered;
    const told = { policyId: "webhook", labels: { by: "test" }, destination: "d", method: "PUT" };
    expect(await tasks()).toMatchObject([told]);
  });
});

describe("what is not handed over", () => {
  test("a POST without a key: it ends as it would without", async () => {
    front.target.statuses = [503];
    const answer = await createFetch(shop().shop)(front.target.url, { method: "POST", body: "x" });
    expect(answer.status).toBe(503);
    expect(await tasks()).toEqual([]);
  });

  test("a stream that is gone, and a mistake of the caller's", async () => {
    front.target.statuses = [503, 404];
    const http = createFetch(shop().shop);
    const stream = new Blob(["x"]).stream();
    const sent = await http(front.target.url, { ...post("x"), body: stream });
    expect(sent.status).toBe(503);
    expect((await http(front.target.url, post("x"))).status).toBe(404);
    expect(await tasks()).toEqual([]);
  });

  test("a call under a layer above that retries: that layer repeats it", async () => {
    front.target.statuses = [503];
    const http = createFetch(shop().shop);
    const headers = { "redrive-attempt": "1" };
    const answer = await incoming(headers, () => http(front.target.url, post("x")));
    expect(answer.status).toBe(503);
    expect(front.target.received).toHaveLength(1);
    expect(await tasks()).toEqual([]);
  });

  test("what the service refuses: the ending stands, and the refusal is told", async () => {
    front.target.statuses = [503, 503];
    const { shop: strange, refusals } = shop({ policyId: "no-such-policy" });
    expect((await createFetch(strange)(front.target.url, post("x"))).status).toBe(503);
    expect(refusals).toMatchObject([{ code: "HAND_OFF_REFUSED" }]);
    expect((refusals[0] as RedriveError).message).toMatch(/422.*no-such-policy/);
  });

  test("what a service that is gone cannot take: the error stands", async () => {
    const gone = await scriptedServer(() => undefined);
    await gone.close();
    const { shop: lonely, refusals } = shop({ url: gone.origin });
    const failing = lonely.run(() => Promise.reject(new Error("down")), {
      request: { url: front.target.url },
      idempotencyKey: "k",
    });
    await expect(failing).rejects.toMatchObject({ code: "GAVE_UP", reason: "attempts" });
    expect(refusals).toHaveLength(1);
  });

  test("whatever the service sets itself: such headers stay behind, and the call goes over", async () => {
    const { shop: own, refusals } = shop();
    const names =
      "connection keep-alive te trailer transfer-encoding upgrade expect host content-length";
    const more =
      "proxy-authorization redrive-attempt webhook-id webhook-timestamp webhook-signature";
    const reserved = `${names} ${more} idempotency-key`.split(" ").map((name) => [name, "1"]);
    const request = { url: front.target.url, headers: Object.fromEntries(reserved) };
    const failing = () => Promise.reject(new Error("down"));
    const ticket = await own.run<unknown>(failing, { request, idempotencyKey: "k" });
    expect(ticket).toMatchObject({ taskId: expect.any(String) });
    expect(refusals).toEqual([]);
  });
});

describe("a call that says how it would be made", () => {
  test("ends with a ticket, behind an open circuit too", async () => {
    const { shop: careful } = shop({}, { breaker: { minCalls: 1 } });
    const charge = () => Promise.reject(new Error("down"));
    const run = async (order: string) => {
      const delivered = endings(front.redrive, 1);
      const request = { url: front.target.url, body: order, headers: { "x-order": order } };
      const result = await careful.run<unknown>(charge, { request, idempotencyKey: order });
      await delivered;
      return result as Ticket;
    };
    const tickets = [await run("a"), await run("b")];
    expect(careful.stats().refused).toBe(1);
    expect(tickets.map(({ taskId }) => taskId)).toEqual(
      (await tasks()).map(({ taskId }: Ticket) => taskId).toReversed(),
    );
    expect(front.target.received.map(({ headers }) => headers["x-order"])).toEqual(["a", "b"]);
  });
});

test("a service behind a key is given the key", async () => {
  const asked: (string | undefined)[] = [];
  const service = await scriptedServer(({ headers }) => {
    asked.push(headers.authorization);
    return { status: 202, body: '{"taskId":"t","status":"PENDING"}' };
  });
  closing.push(service.close);
  front.target.statuses = [503, 503];
  const { shop: keyed } = shop({ url: service.origin, apiKey: "rk_1" });
  const answer = await createFetch(keyed)(front.target.url, post("x"));
  expect(asked).toEqual(["Bearer rk_1"]);
  expect(answer.headers.get("location")).toBe(`${service.origin}/retry-tasks/t`);
});

test.each<unknown>(["", "not an address", "ftp://service", 7])(
  "an address %j is refused when the hand-off is made",
  (url) => {
    expect(() => handOff({ url: url as string })).toThrow(
      /url must be the service's http or https address/,
    );
  },
);
