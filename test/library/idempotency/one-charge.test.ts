/**
 * One key, one charge: a real client and a real server, both on defaults. Whatever the handler does
 * after it has charged, a client that retries with the same key never causes a second charge.
 */
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { virtualClock } from "@redrive/core";
import express5 from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { createFetch } from "redrive";
import {
  forExpress,
  forFastify,
  forFetch,
  forHono,
  forNode,
  type HandlerRun,
  type IdempotencyEventType,
  type Interceptor,
  idempotency,
  type KeyClaim,
  memoryStore,
  NotExecuted,
  type ServedRequest,
} from "redrive/idempotency";
import { overloadLimiter } from "redrive/server";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers?: Record<string, string>;
}

/** What the application does for `POST /charges`. It gets the framework's own request. */
type Handler = (native: object) => Promise<Answer>;

type Open = (interceptors: readonly Interceptor[], handler: Handler) => Promise<Server>;

async function listening(server: Server): Promise<Server> {
  if (!server.listening) await once(server, "listening");
  return server;
}

const openNode: Open = (interceptors, handler) => {
  type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;
  const listener: Listener = async (request, response) => {
    const { status, body, headers } = await handler(request);
    response.writeHead(status, { "content-type": "text/plain", ...headers }).end(body);
  };
  const all = interceptors.reduceRight<Listener>((inner, one) => forNode(one, inner), listener);
  return listening(createServer(all).listen(0, "127.0.0.1"));
};

/** Express 4 does not see the rejection of a handler, so that handlers pass their errors to `next`. */
const openExpress =
  (express: typeof express5): Open =>
  (interceptors, handler) => {
    const app = express();
    app.post("/charges", ...interceptors.map((one) => forExpress(one)), (request, response, next) =>
      handler(request).then(({ status, body, headers }) => {
        response.status(status).set(headers ?? {});
        response.send(body);
      }, next),
    );
    return listening(app.listen(0, "127.0.0.1"));
  };

const openFastify: Open = async (interceptors, handler) => {
  const app = Fastify({ forceCloseConnections: true });
  const preHandler = interceptors.map((one) => forFastify(one));
  app.post("/charges", { preHandler }, async (request, reply) => {
    const { status, body, headers } = await handler(request);
    reply.code(status).headers(headers ?? {});
    return reply.send(body);
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app.server;
};

const partsOf = ({ status, body, headers }: Answer): [string, ResponseInit] => [
  body,
  { status, ...(headers && { headers }) },
];

const openHono: Open = (interceptors, handler) => {
  const app = new Hono();
  for (const one of interceptors) app.use(forHono(one));
  app.post("/charges", async (context) => new Response(...partsOf(await handler(context))));
  return listening(serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server);
};

const openFetch: Open = (interceptors, handler) => {
  type Fetch = (request: Request) => Promise<Response>;
  const own: Fetch = async (request) => new Response(...partsOf(await handler(request)));
  const all = interceptors.reduceRight<Fetch>((inner, one) => forFetch(one, inner), own);
  return listening(serve({ fetch: all, port: 0, hostname: "127.0.0.1" }) as Server);
};

const express4 = createRequire(import.meta.url)("express4") as typeof express5;

const FRAMEWORKS: readonly (readonly [name: string, open: Open])[] = [
  ["node:http", openNode],
  ["Express 4", openExpress(express4)],
  ["Express 5", openExpress(express5)],
  ["Fastify", openFastify],
  ["Hono", openHono],
  ["fetch", openFetch],
];

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Takes a slot of a limiter. */
const otherRequest: ServedRequest = {
  method: "GET",
  target: "/",
  header: () => undefined,
  body: () => ({ kind: "gone" }),
  onGone: () => undefined,
  native: undefined,
};

/** Of an interceptor that passes a request on. */
const PASS: HandlerRun = {
  holdBytes: 0,
  respond: async (response) => response,
  sent: () => undefined,
  failed: async () => undefined,
  gone: () => undefined,
};

const closers: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation(() => undefined);
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

describe.each(FRAMEWORKS)("%s", (_, openServer) => {
  /** A shop whose handler charges, and then does as `handler` says. */
  async function shop(
    handler: (charge: number, claim: KeyClaim) => Answer | Promise<Answer>,
    inside: readonly Interceptor[] = [],
  ) {
    let charges = 0;
    const events: IdempotencyEventType[] = [];
    const keys = idempotency({
      store: memoryStore(),
      scope: () => "shop",
      onEvent: ({ type }) => events.push(type),
    });
    const server = await openServer([keys as Interceptor, ...inside], async (native) => {
      return await handler(++charges, keys.claimOf(native) as KeyClaim);
    });
    closers.push(() => {
      server.closeAllConnections();
      return once(server.close(), "close");
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/charges`;
    const init = { method: "POST", headers: { "idempotency-key": "order-17" }, body: "{}" };
    const clock = virtualClock(Date.now());
    const retries: number[] = [];
    // The defaults of the client. Its waits pass at once.
    const http = createFetch({
      clock,
      onEvent(event) {
        if (event.type !== "retry") return;
        retries.push(event.delayMs);
        void clock.advance(event.delayMs);
      },
    });
    const send = () => http(url, init);
    /** One attempt. */
    const sendOnce = () => fetch(url, init);
    return { clock, send, sendOnce, retries, events, keys, charges: () => charges };
  }

  const read = async (response: Response) => ({
    status: response.status,
    body: await response.text(),
    isReplayed: response.headers.get("idempotent-replayed") === "true",
  });

  describe("charges once, although the client retries, if the handler charges and", () => {
    test.each([500, 501, 502, 503, 504, 400, 401, 403, 404, 408, 409, 425, 429])(
      "answers %d",
      async (status) => {
        const { send, sendOnce, charges } = await shop((charge) => ({
          status,
          body: `no. ${charge}`,
          // As long as that of a refusal, which would leave the key free.
          headers: { "Retry-After": "1" },
        }));
        expect(await read(await send())).toMatchObject({ status, body: "no. 1" });
        const again = await read(await sendOnce());
        expect(again).toEqual({ status, body: "no. 1", isReplayed: true });
        expect(charges()).toBe(1);
      },
    );

    test("throws", async () => {
      const { send, sendOnce, charges, retries } = await shop(() => {
        throw new Error("no connection to the mail server");
      });
      const { status, body } = await read(await send());
      expect(status).toBe(500);
      // The repetition shows the client that the failure is stored. Further ones would change nothing.
      expect(retries).toHaveLength(1);
      expect(await read(await sendOnce())).toEqual({ status, body, isReplayed: true });
      expect(charges()).toBe(1);
    });

    test("hangs until the client's attempt times out, and then answers: the client gets the answer", async () => {
      const steps = new EventEmitter();
      const { clock, send, charges, events } = await shop(async () => {
        steps.emit("charged");
        await once(steps, "answer");
        return { status: 201, body: "charged" };
      });
      const charged = once(steps, "charged");
      const answer = send();
      await charged;
      const timedOut = clock.advance(11_000);
      while (!events.includes("in-progress")) await turn();
      steps.emit("answer");
      while (!events.includes("stored")) await turn();
      await timedOut;
      expect(await read(await answer)).toEqual({ status: 201, body: "charged", isReplayed: true });
      expect(charges()).toBe(1);
    });
  });

  describe("leaves the key free, so that the client's retry succeeds, if", () => {
    const charged = { status: 201, body: "charged" };

    test("an overload limiter behind the key refuses", async () => {
      const limiter = overloadLimiter({ max: 1, queue: 0, algorithm: "FIXED" });
      const other = await limiter.begin(otherRequest);
      const { send, charges, events } = await shop(() => charged, [limiter as Interceptor]);
      // The slot is free when the client has got its first refusal.
      const answer = send();
      while (!events.includes("not-executed")) await turn();
      if ("sent" in other) other.sent(200);
      expect(await read(await answer)).toMatchObject(charged);
      expect(charges()).toBe(1);
      expect(new Set(events)).toEqual(new Set(["claimed", "not-executed", "stored"]));
    });

    test("another interceptor behind the key refuses", async () => {
      let requests = 0;
      const gate: Interceptor = {
        async begin() {
          if (++requests > 1) return PASS;
          return { status: 503, headers: [], body: new Uint8Array(), notExecuted: true };
        },
      };
      const { send, charges } = await shop(() => charged, [gate]);
      expect(await read(await send())).toMatchObject(charged);
      expect([requests, charges()]).toEqual([2, 1]);
    });

    test("the handler throws NotExecuted", async () => {
      const { send, sendOnce, charges, events } = await shop((charge) => {
        if (charge > 1) return charged;
        throw new NotExecuted("the card network is down");
      });
      const first = await sendOnce();
      expect([first.status, first.headers.get("retry-after")]).toEqual([503, "1"]);
      expect(await read(await send())).toMatchObject({ ...charged, isReplayed: false });
      expect(charges()).toBe(2);
      expect(events).toEqual(["claimed", "not-executed", "claimed", "stored"]);
    });

    test("the handler throws NotExecuted with another status, behind another interceptor", async () => {
      const { sendOnce, events } = await shop(() => {
        throw new NotExecuted("try later", { status: 409, retryAfterMs: 30_000 });
      }, [overloadLimiter() as Interceptor]);
      const first = await sendOnce();
      expect([first.status, first.headers.get("retry-after")]).toEqual([409, "30"]);
      expect(events).toEqual(["claimed", "not-executed"]);
    });

    test("the handler releases its claim, and then answers 503", async () => {
      const { send, charges, events } = await shop(async (charge, claim) => {
        if (charge > 1) return charged;
        expect(await claim.release()).toBe(true);
        return { status: 503, body: "try again" };
      });
      expect(await read(await send())).toMatchObject(charged);
      expect(charges()).toBe(2);
      expect(events).toEqual(["claimed", "released", "claimed", "stored"]);
    });
  });

  test("keeps the answer of an interceptor behind the key that has an outcome", async () => {
    const stored: Interceptor = {
      begin: async () => ({ status: 503, headers: [], body: new Uint8Array() }),
    };
    const { send, sendOnce, charges } = await shop(() => ({ status: 201, body: "" }), [stored]);
    await send();
    expect(await read(await sendOnce())).toMatchObject({ status: 503, isReplayed: true });
    expect(charges()).toBe(0);
  });
});

describe("error handlers of the application", () => {
  const keysWith = (events: IdempotencyEventType[]) =>
    idempotency<never>({
      store: memoryStore(),
      scope: () => "shop",
      onEvent: ({ type }) => events.push(type),
    });
  const post = async (server: Server) => {
    closers.push(() => {
      server.closeAllConnections();
      return once(server.close(), "close");
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/charges`;
    const headers = { "idempotency-key": "order-17" };
    return (await fetch(url, { method: "POST", headers })).status;
  };
  const refuse = () => {
    throw new NotExecuted();
  };

  test.each([
    ["Express 4", express4],
    ["Express 5", express5],
  ])("of %s that write their own response release the claim", async (_, express) => {
    const events: IdempotencyEventType[] = [];
    const keys = keysWith(events);
    const app = express();
    app.post("/charges", forExpress(keys as Interceptor), refuse);
    type Handle = express5.ErrorRequestHandler;
    const handle: Handle = async (error, request, response, _next) => {
      if (error instanceof NotExecuted) await keys.claimOf(request as never)?.release();
      response.status(503).json({ error: "try again" });
    };
    app.use(handle);
    expect(await post(await listening(app.listen(0, "127.0.0.1")))).toBe(503);
    expect(events).toEqual(["claimed", "released"]);
  });

  test("of Fastify that write their own response release the claim", async () => {
    const events: IdempotencyEventType[] = [];
    const keys = keysWith(events);
    const app = Fastify({ forceCloseConnections: true });
    app.setErrorHandler(async (error, request, reply) => {
      if (error instanceof NotExecuted) await keys.claimOf(request as never)?.release();
      return reply.code(503).send({ error: "try again" });
    });
    app.post("/charges", { preHandler: forFastify(keys as Interceptor) }, refuse);
    await app.listen({ port: 0, host: "127.0.0.1" });
    expect(await post(app.server)).toBe(503);
    expect(events).toEqual(["claimed", "released"]);
  });

  test("of Hono need not do anything", async () => {
    const events: IdempotencyEventType[] = [];
    const app = new Hono();
    app.onError((_error, context) => context.text("try again", 503));
    app.use(forHono(keysWith(events) as Interceptor));
    app.post("/charges", refuse);
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
    expect(await post(await listening(server))).toBe(503);
    expect(events).toEqual(["claimed", "not-executed"]);
  });
});

test("a middleware of Hono that copies the response hides no refusal", async () => {
  const events: IdempotencyEventType[] = [];
  const keys = idempotency({
    store: memoryStore(),
    scope: () => "shop",
    onEvent: ({ type }) => events.push(type),
  });
  const limiter = overloadLimiter({ max: 1, queue: 0, algorithm: "FIXED" });
  await limiter.begin(otherRequest);
  const app = new Hono();
  app.use(forHono(keys as Interceptor));
  app.use(async (context, next) => {
    context.header("x-before", "1");
    await next();
    context.res = new Response(context.res.body, context.res);
    context.res.headers.set("x-after", "1");
  });
  app.use(forHono(limiter as Interceptor));
  app.post("/", (context) => context.text("charged"));
  const headers = { "idempotency-key": "order-17" };
  const response = await app.request("/", { method: "POST", headers });
  expect([response.status, response.headers.get("x-after")]).toEqual([503, "1"]);
  expect(events).toEqual(["claimed", "not-executed"]);
});

test("a handler of fetch that answers after a refusal has an outcome", async () => {
  const keys = idempotency<Request>({ store: memoryStore(), scope: () => "shop" });
  const limiter = overloadLimiter<Request>({ max: 1, queue: 0, algorithm: "FIXED" });
  await limiter.begin(otherRequest as never);
  let charges = 0;
  const limited = forFetch(limiter, () => new Response("charged"));
  const handler = forFetch(keys, async (request) => {
    const response = await limited(request);
    if (response.status === 503) charges++;
    return new Response("charged in another way", { status: 503 });
  });
  const send = () =>
    handler(
      new Request("https://shop.example/", {
        method: "POST",
        headers: { "idempotency-key": "order-17" },
      }),
    );
  for (let times = 0; times < 2; times++) expect((await send()).status).toBe(503);
  expect(charges).toBe(1);
});
