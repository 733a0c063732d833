/**
 * A client that goes away in the middle of a response does not free its key, neither then nor later: the
 * effect happens once. All servers run in virtual time.
 */
import { EventEmitter, once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from "node:http";
import { connect } from "node:http2";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import { pipeline as pipelinePromise } from "node:stream/promises";
import { virtualClock } from "@redrive/core";
import express5 from "express";
import Fastify from "fastify";
import {
  forExpress,
  forFastify,
  forNode,
  type IdempotencyOptions,
  idempotency,
  memoryStore,
} from "redrive/idempotency";
import { describe, expect, onTestFinished, test, vi } from "vitest";

const HEADERS = { "idempotency-key": "k1" };
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Keys in virtual time, and what happened to them. */
function keysIn(more: Partial<IdempotencyOptions> = {}) {
  const clock = virtualClock(Date.now());
  const events: string[] = [];
  const keys = idempotency({
    store: memoryStore({ clock }),
    scope: () => "account",
    onEvent: ({ type }) => events.push(type),
    clock,
    ...more,
  });
  return { clock, events, keys };
}

type Keys = ReturnType<typeof keysIn>;

/** Requires that no request with the key runs: now, after an hour, and after almost a day. */
async function expectUnknown(url: string, { clock }: Keys): Promise<void> {
  for (const waitMs of [0, 3_600_000, 22 * 3_600_000]) {
    await clock.advance(waitMs);
    const again = await fetch(url, { method: "POST", headers: HEADERS });
    expect([again.status, again.headers.get("retry-after")]).toEqual([409, null]);
    expect(await again.json()).toMatchObject({ code: "IDEMPOTENCY_OUTCOME_UNKNOWN" });
  }
}

/** Lets time pass until the outcome is stored as unknown. Returns how much. */
async function untilUnknown({ clock, events }: Keys): Promise<number> {
  let waitedMs = 0;
  for (; !events.includes("stored"); waitedMs += 1000) {
    await turn();
    await clock.advance(1000);
  }
  return waitedMs;
}

async function nodeServer(handler: RequestListener): Promise<string> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Charges a card, and answers with a stream. Of the first one only a half ever comes. */
class Charges {
  count = 0;
  readonly #streams: Readable[] = [];
  readonly #reading = new EventEmitter();
  /** When the first half of the first stream was read. */
  readonly started: Promise<unknown> = once(this.#reading, "half");

  charge(): Readable {
    if (++this.count > 1) return Readable.from(["whole"]);
    const stream = new Readable({
      read: () => {
        if (stream.readableDidRead) this.#reading.emit("half");
        else stream.push("half");
      },
    });
    this.#streams.push(stream);
    return stream;
  }

  /** When the server has noticed that the client is gone, and has reacted to it. */
  async abandoned(): Promise<void> {
    const [first] = this.#streams;
    if (first && !first.destroyed) await new Promise((resolve) => first.once("close", resolve));
    for (let turns = 0; turns < 5; turns++) await turn();
  }
}

async function fastifyServer(charges: Charges, { keys }: Keys, http2: boolean): Promise<string> {
  const app = Fastify({ forceCloseConnections: true, ...(http2 && { http2: true as never }) });
  app.post("/", { preHandler: forFastify(keys) }, (_request, reply) =>
    reply.send(charges.charge()),
  );
  onTestFinished(async () => void (await app.close()));
  return app.listen({ port: 0, host: "127.0.0.1" });
}

/** A client that closes its connection when the first half of the response is on its way. */
async function sendAndGoAway(url: string, charges: Charges): Promise<void> {
  const client = request(url, { method: "POST", headers: HEADERS }).on("error", () => undefined);
  client.end();
  await charges.started;
  client.destroy();
  await charges.abandoned();
}

const UNKNOWN = ["claimed", "outcome-unknown", "stored"];

test("Fastify destroys the stream of a client that is gone, and no repetition runs", async () => {
  const charges = new Charges();
  const keys = keysIn();
  const url = await fastifyServer(charges, keys, false);
  await sendAndGoAway(url, charges);
  expect(keys.events).toEqual(UNKNOWN);
  await expectUnknown(url, keys);
  expect(charges.count).toBe(1);
});

test("the same over HTTP/2", async () => {
  const charges = new Charges();
  const keys = keysIn();
  const client = connect(await fastifyServer(charges, keys, true));
  onTestFinished(() => client.destroy());
  const send = () => client.request({ ":method": "POST", ":path": "/", ...HEADERS }).end();
  const first = send().on("error", () => undefined);
  await charges.started;
  first.close();
  await charges.abandoned();
  for (const waitMs of [0, 3_600_000]) {
    await keys.clock.advance(waitMs);
    const [headers] = await once(send(), "response");
    expect([headers[":status"], charges.count]).toEqual([409, 1]);
  }
  expect(keys.events.slice(0, 3)).toEqual(UNKNOWN);
});

test.each<[string, (charges: Charges, response: ServerResponse) => unknown]>([
  [
    "pipeline stops",
    (charges, response) => void pipeline(charges.charge(), response, () => undefined),
  ],
  [
    "pipeline stops, and the handler with it",
    (charges, response) => pipelinePromise(charges.charge(), response),
  ],
  [
    "the handler has returned, and nobody ends the response",
    async (charges, response) => {
      charges.charge().pipe(response);
    },
  ],
])("when the client is gone and %s, no repetition runs", async (_, respond) => {
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  const charges = new Charges();
  const keys = keysIn();
  const url = await nodeServer(
    forNode(keys.keys, (_request: IncomingMessage, response: ServerResponse) =>
      respond(charges, response),
    ) as RequestListener,
  );
  const client = request(url, { method: "POST", headers: HEADERS }).on("error", () => undefined);
  client.end();
  await charges.started;
  client.destroy();
  await untilUnknown(keys);
  expect(keys.events).toEqual(UNKNOWN);
  await expectUnknown(url, keys);
  expect(charges.count).toBe(1);
});

test("a handler that returns without ending its response has an unknown outcome once the client is gone", async () => {
  const keys = keysIn();
  const started = new EventEmitter();
  let runs = 0;
  const handler = async () => {
    runs++;
    started.emit("run");
  };
  const url = await nodeServer(forNode(keys.keys, handler) as RequestListener);
  const client = request(url, { method: "POST", headers: HEADERS }).on("error", () => undefined);
  const isStarted = once(started, "run");
  client.end();
  await isStarted;
  client.destroy();
  while (!keys.events.includes("stored")) await turn();
  await expectUnknown(url, keys);
  expect(runs).toBe(1);
});

describe.each([
  ["Express 4", createRequire(import.meta.url)("express4") as typeof express5],
  ["Express 5", express5],
])("%s, where nobody sees the end of a handler", (_, express) => {
  /** A client that is gone, while a handler runs. */
  async function abandoned(more: Partial<IdempotencyOptions> = {}) {
    const keys = keysIn(more);
    const steps = new EventEmitter();
    let runs = 0;
    const app = express();
    app.post("/", forExpress(keys.keys), async (_request, response) => {
      runs++;
      steps.emit("run");
      response.status(201).type("txt").write("half");
      await once(steps, "finish");
      response.end(" whole");
    });
    const url = await nodeServer(app);
    const client = request(url, { method: "POST", headers: HEADERS }).on("error", () => undefined);
    const isStarted = once(steps, "run");
    client.end();
    await isStarted;
    client.destroy();
    return { ...keys, keys, url, steps, runs: () => runs };
  }

  const codeOf = async (url: string) =>
    (await (await fetch(url, { method: "POST", headers: HEADERS })).json()).code;

  test("it has a minute to go on, then its outcome counts as unknown, and no repetition runs", async () => {
    const { keys, url, runs } = await abandoned();
    expect(await codeOf(url)).toBe("IDEMPOTENCY_IN_PROGRESS");
    expect(await untilUnknown(keys)).toBeGreaterThanOrEqual(60_000);
    await expectUnknown(url, keys);
    expect(runs()).toBe(1);
  });

  test("if it ends after that, the repetition gets its response", async () => {
    const { keys, url, steps } = await abandoned();
    await untilUnknown(keys);
    steps.emit("finish");
    while (keys.events.filter((type) => type === "stored").length < 2) await turn();
    const again = await fetch(url, { method: "POST", headers: HEADERS });
    expect([again.status, await again.text()]).toEqual([201, "half whole"]);
  });

  test("with cutOffResponse, the repetition gets what it had written", async () => {
    const { keys, url, runs } = await abandoned({ cutOffResponse: "replay" });
    await untilUnknown(keys);
    const again = await fetch(url, { method: "POST", headers: HEADERS });
    expect([again.status, await again.text()]).toEqual([201, "half"]);
    expect(again.headers.get("idempotent-replayed")).toBe("part");
    expect(runs()).toBe(1);
  });

  test("an error after a part of the response closes the connection, and no repetition runs", async () => {
    const keys = keysIn();
    let runs = 0;
    const app = express();
    app.post("/", forExpress(keys.keys), (_request, response, next) => {
      runs++;
      response.write("half");
      next(new Error("broken"));
    });
    const url = await nodeServer(app);
    await expect(fetch(url, { method: "POST", headers: HEADERS })).rejects.toThrow();
    await untilUnknown(keys);
    await expectUnknown(url, keys);
    expect(runs).toBe(1);
  });
});
