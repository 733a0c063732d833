/** Idempotency keys behave the same on every framework, over real connections. */
import { randomBytes } from "node:crypto";
import { request as httpRequest } from "node:http";
import { virtualClock } from "@redrive/core";
import {
  type IdempotencyEventType,
  type IdempotencyOptions,
  idempotency,
  memoryStore,
} from "redrive/idempotency";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  type Answer,
  type Application,
  FRAMEWORKS,
  type RunningServer,
} from "../framework-servers.ts";

const servers: RunningServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

const CREATED: Answer = {
  status: 201,
  headers: {
    "Content-Type": "application/octet-stream",
    Location: "/charges/17",
    "Set-Cookie": ["a=1; Path=/", "b=2"],
    "X-Latin": "\u00e9t\u00e9",
  },
  body: BYTES,
};

describe.each(FRAMEWORKS)("%s", (name, openServer) => {
  async function open(application: Application, more: Partial<IdempotencyOptions> = {}) {
    const events: IdempotencyEventType[] = [];
    const keys = idempotency({
      store: memoryStore(),
      scope: (request) => request.header("x-account") ?? "nobody",
      onEvent: ({ type }) => events.push(type),
      ...more,
    });
    const server = await openServer(keys as never, application);
    servers.push(server);
    const send = (body: unknown, headers: Record<string, string> = {}, path = "/api/charges") =>
      fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "k1", ...headers },
        body: JSON.stringify(body),
      });
    return { keys, events, server, send };
  }

  /** An application that streams its answer, in virtual time. */
  async function openStreaming(answer: Answer) {
    const clock = virtualClock(Date.now());
    let count = 0;
    const all = await open(
      async (_, native) => {
        count++;
        all.keys.claimOf(native)?.stream();
        return answer;
      },
      { clock },
    );
    const headers = { "content-type": "application/json", "idempotency-key": "k1" };
    const send = (body: unknown, signal?: AbortSignal) =>
      fetch(`${all.server.url}/api/charges`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        ...(signal && { signal }),
      });
    return { ...all, clock, send, runs: () => count };
  }

  /** Counts how often the application ran. */
  function counted(answer: Answer | ((run: number) => Answer | Promise<Answer>)) {
    const bodies: string[] = [];
    const application: Application = async (body) => {
      bodies.push(body);
      return typeof answer === "function" ? await answer(bodies.length) : answer;
    };
    return { bodies, application };
  }

  const read = async (response: Response) => ({
    status: response.status,
    headers: Object.fromEntries(
      [...response.headers].filter(([header]) => !/^(date|connection|keep-alive)$/.test(header)),
    ),
    cookies: response.headers.getSetCookie(),
    body: Buffer.from(await response.arrayBuffer()).toString("hex"),
  });

  test.each([
    ["at once", undefined],
    ["in parts", "parts"],
    ["as a stream", "stream"],
  ] as const)("a repetition gets the response byte for byte: written %s", async (_, how) => {
    const { bodies, application } = counted({ ...CREATED, ...(how && { how }) });
    const { send, events } = await open(application);
    const first = await read(await send({ amount: 17 }));
    const second = await read(await send({ amount: 17 }));
    expect(first).toMatchObject({ status: 201, body: BYTES.toString("hex") });
    expect(first.headers).toMatchObject({ location: "/charges/17", "x-latin": "\u00e9t\u00e9" });
    expect(first.cookies).toEqual(["a=1; Path=/", "b=2"]);
    expect(first.headers).not.toHaveProperty("idempotent-replayed");
    expect(second).toEqual({
      ...first,
      headers: { ...first.headers, "idempotent-replayed": "true" },
    });
    expect(bodies).toEqual(['{"amount":17}']);
    expect(events).toEqual(["claimed", "stored", "replayed"]);
  });

  test("an empty response is repeated too", async () => {
    const { bodies, application } = counted({ status: 204, headers: {}, body: Buffer.of() });
    const { send } = await open(application);
    const first = await read(await send({}));
    const second = await read(await send({}));
    expect([first.status, first.body, second.status, second.body]).toEqual([204, "", 204, ""]);
    expect(bodies).toHaveLength(1);
  });

  test("the same key means the same in quotes", async () => {
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application);
    await send({}, { "idempotency-key": '"k 1"' });
    const again = await send({}, { "idempotency-key": '"k 1";v=1' });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(bodies).toHaveLength(1);
  });

  test("a repetition while the first request runs gets 409 with Retry-After, and later the response", async () => {
    let finish = (_: Answer) => {};
    let started = () => {};
    const isStarted = new Promise<void>((resolve) => (started = resolve));
    const { bodies, application } = counted(() => {
      started();
      return new Promise<Answer>((resolve) => (finish = resolve));
    });
    const { send, events } = await open(application);
    const first = send({ amount: 1 });
    await isStarted;
    const busy = await send({ amount: 1 });
    expect(busy.status).toBe(409);
    expect(busy.headers.get("retry-after")).toBe("1");
    expect(busy.headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(await busy.json()).toMatchObject({ status: 409, code: "IDEMPOTENCY_IN_PROGRESS" });
    const other = await send({ amount: 2 });
    expect(other.status).toBe(422);
    finish(CREATED);
    expect((await first).status).toBe(201);
    const again = await send({ amount: 1 });
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
    expect(bodies).toHaveLength(1);
    expect(events).toEqual(["claimed", "in-progress", "mismatch", "stored", "replayed"]);
  });

  test("another body, path or query under the same key gets 422", async () => {
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application);
    await send({ amount: 1 });
    const others = [
      await send({ amount: 2 }),
      await send({ amount: 1 }, {}, "/api/refunds"),
      await send({ amount: 1 }, {}, "/api/charges?a=1"),
    ];
    for (const other of others) {
      expect(other.status).toBe(422);
      expect(await other.json()).toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
    }
    expect(bodies).toHaveLength(1);
  });

  test("keys of different callers never meet", async () => {
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application);
    await send({ amount: 1 }, { "x-account": "a" });
    const other = await send({ amount: 2 }, { "x-account": "b" });
    expect(other.status).toBe(201);
    expect(bodies).toEqual(['{"amount":1}', '{"amount":2}']);
  });

  test("a response with 5xx is kept: the repetition gets it", async () => {
    const down = { status: 503, headers: { "retry-after": "7" }, body: Buffer.from("down") };
    const { bodies, application } = counted((run) => (run === 1 ? down : CREATED));
    const { send, events } = await open(application);
    for (const isReplayed of [null, "true"]) {
      const { status, headers, ...response } = await send({}).then(async (one) => ({
        status: one.status,
        headers: one.headers,
        text: await one.text(),
      }));
      expect([status, headers.get("retry-after"), response.text]).toEqual([503, "7", "down"]);
      expect(headers.get("idempotent-replayed")).toBe(isReplayed);
    }
    expect(bodies).toHaveLength(1);
    expect(events).toEqual(["claimed", "stored", "replayed"]);
  });

  test("a response that keepStatus excludes frees the key: the repetition runs", async () => {
    const down = { status: 503, headers: {}, body: Buffer.from("down") };
    const { bodies, application } = counted((run) => (run === 1 ? down : CREATED));
    const { send, events } = await open(application, { keepStatus: (status) => status < 500 });
    expect((await send({})).status).toBe(503);
    expect((await send({})).status).toBe(201);
    expect(bodies).toHaveLength(2);
    expect(events).toEqual(["claimed", "not-kept", "claimed", "stored"]);
  });

  test("a response that the handler streams is not held, and the repetition gets 410", async () => {
    let finish = () => {};
    const isFinished = new Promise<void>((resolve) => (finish = resolve));
    const body = (async function* () {
      yield Buffer.from("first ");
      await isFinished;
      yield Buffer.from("last");
    })();
    const answer: Answer = { status: 200, headers: {}, body: Buffer.of(), stream: body };
    const { keys, send, events, runs } = await openStreaming(answer);
    const response = await send({});
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe("first ");
    const during = await send({});
    expect(await during.json()).toMatchObject({ code: "IDEMPOTENCY_IN_PROGRESS" });
    finish();
    expect((await reader?.read())?.value).toBe("last");
    expect((await reader?.read())?.done).toBe(true);
    expect(await keys.drain()).toBe(0);
    const again = await send({});
    expect(again.status).toBe(410);
    expect(await again.json()).toMatchObject({ code: "IDEMPOTENCY_RESPONSE_NOT_STORED" });
    expect(runs()).toBe(1);
    expect(events).toEqual(["claimed", "in-progress", "not-stored", "stored", "replayed"]);
  });

  test("a client that leaves in the middle of a stream: the repetition gets 409 and does not run", async () => {
    const body = (async function* () {
      yield Buffer.from("first ");
      await new Promise(() => undefined);
    })();
    const answer: Answer = { status: 200, headers: {}, body: Buffer.of(), stream: body };
    const { clock, send, events, runs } = await openStreaming(answer);
    const controller = new AbortController();
    const response = await send({}, controller.signal);
    const reader = response.body?.getReader();
    await reader?.read();
    controller.abort();
    await reader?.closed.catch(() => undefined);
    // Where nobody sees the end of the handler, it has a minute to go on.
    while (!events.includes("stored")) {
      await turn();
      await clock.advance(1000);
    }
    const again = await send({});
    expect(again.status).toBe(409);
    expect(await again.json()).toMatchObject({ code: "IDEMPOTENCY_OUTCOME_UNKNOWN" });
    expect(runs()).toBe(1);
    expect(events).toEqual(["claimed", "outcome-unknown", "stored", "replayed"]);
  });

  test("a response that is too large is sent whole, and the repetition gets 410 instead of a second run", async () => {
    const body = randomBytes(300_000);
    const { bodies, application } = counted({ status: 200, headers: {}, body, how: "stream" });
    const { send, events } = await open(application, { maxResponseBytes: 1000 });
    const first = Buffer.from(await (await send({})).arrayBuffer());
    expect(first.equals(body)).toBe(true);
    // The key is settled when the connection has taken the whole response.
    while (!events.includes("stored")) await turn();
    const second = await send({});
    expect(second.status).toBe(410);
    expect(await second.json()).toMatchObject({
      code: "IDEMPOTENCY_RESPONSE_NOT_STORED",
      detail: expect.stringContaining("was executed with status 200"),
    });
    expect(bodies).toHaveLength(1);
  });

  test("a response with too many headers is sent whole and not stored", async () => {
    const headers = { "X-Large": "x".repeat(2000) };
    const { application } = counted({ status: 200, headers, body: Buffer.from("ok") });
    const { send } = await open(application, { maxHeaderBytes: 1000 });
    const first = await send({});
    expect([first.headers.get("x-large")?.length, await first.text()]).toEqual([2000, "ok"]);
    expect((await send({})).status).toBe(410);
  });

  test("a request body that is too large is refused, and the handler does not run", async () => {
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application, { maxRequestBytes: 1000 });
    const response = await send({ text: "x".repeat(2000) });
    const isParsedFirst = /after the parser|Fastify/.test(name);
    // A parser that ran before has its own limit.
    expect(response.status).toBe(isParsedFirst ? 201 : 413);
    expect(bodies).toHaveLength(isParsedFirst ? 1 : 0);
  });

  test("a large request body reaches the handler whole", async () => {
    const text = randomBytes(400_000).toString("hex");
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application, { maxRequestBytes: 2_000_000 });
    expect((await send({ text })).status).toBe(201);
    expect(bodies[0] === JSON.stringify({ text })).toBe(true);
  });

  test.each([
    ["two", '"a", "b"'],
    ["an unfinished string", '"a'],
    ["a key that is too long", "x".repeat(256)],
  ])("a bad key gets 400 and the handler does not run: %s", async (_, key) => {
    const { bodies, application } = counted(CREATED);
    const { send } = await open(application);
    const response = await send({}, { "idempotency-key": key });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: "IDEMPOTENCY_KEY_INVALID" });
    expect(bodies).toEqual([]);
  });

  test("a missing key gets 400 with a link if a key is required", async () => {
    const { bodies, application } = counted(CREATED);
    const documentationUrl = "https://api.example/idempotency";
    const { server } = await open(application, { required: true, documentationUrl });
    const response = await fetch(`${server.url}/api/charges`, { method: "POST" });
    expect(response.status).toBe(400);
    expect(response.headers.get("link")).toBe(`<${documentationUrl}>; rel="describedby"`);
    expect(await response.json()).toMatchObject({
      type: documentationUrl,
      title: "Idempotency-Key is missing",
      code: "IDEMPOTENCY_KEY_REQUIRED",
    });
    expect(bodies).toEqual([]);
  });

  test("requests without a key, and with other methods, are passed on", async () => {
    const { bodies, application } = counted(CREATED);
    const { server, events } = await open(application);
    const url = `${server.url}/api/charges`;
    const headers = { "idempotency-key": "k" };
    for (let times = 0; times < 2; times++) {
      expect((await fetch(url, { method: "POST" })).status).toBe(201);
      expect((await fetch(url, { method: "PUT", headers })).status).toBe(201);
    }
    expect(bodies).toHaveLength(4);
    expect(events).toEqual([]);
  });

  test("the handler finishes although its client is gone, and the repetition gets the response", async () => {
    let finish = (_: Answer) => {};
    let started = () => {};
    const isStarted = new Promise<void>((resolve) => (started = resolve));
    const { bodies, application } = counted(() => {
      started();
      return new Promise<Answer>((resolve) => (finish = resolve));
    });
    const { server, send, events } = await open(application);
    const headers = { "content-type": "application/json", "idempotency-key": "k1" };
    const client = httpRequest(`${server.url}/api/charges`, { method: "POST", headers });
    client.on("error", () => undefined);
    client.end("{}");
    await isStarted;
    client.destroy();
    finish(CREATED);
    while (!events.includes("stored")) await turn();
    const again = await read(await send({}));
    expect([again.status, again.body]).toEqual([201, BYTES.toString("hex")]);
    expect(bodies).toHaveLength(1);
  });

  test("the handler can read its claim", async () => {
    const seen: unknown[] = [];
    const { keys, send, server } = await open(async (_, native) => {
      const claim = keys.claimOf(native);
      seen.push(claim && [claim.key, claim.takeovers, claim.signal.aborted]);
      return CREATED;
    });
    await send({});
    await fetch(`${server.url}/api/charges`, { method: "POST" });
    expect(seen).toEqual([["k1", 0, false], undefined]);
  });

  test("a handler that throws is not run again", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { bodies, application } = counted((run) => {
      if (run === 1) throw new Error("broken");
      return CREATED;
    });
    const { send } = await open(application);
    expect((await send({})).status).toBe(500);
    const again = await send({});
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([500, "true"]);
    expect(bodies).toHaveLength(1);
  });
});
