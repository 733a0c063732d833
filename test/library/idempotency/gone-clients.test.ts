/** A client that goes away in the middle of a response does not free its key: the effect happens once. */
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { connect } from "node:http2";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import Fastify from "fastify";
import { forFastify, forNode, idempotency, memoryStore } from "redrive/idempotency";
import { expect, onTestFinished, test } from "vitest";

const HEADERS = { "idempotency-key": "k1" };
const turn = () => new Promise((resolve) => setImmediate(resolve));

const keysOf = (events: string[]) =>
  idempotency({
    store: memoryStore(),
    scope: () => "account",
    onEvent: ({ type }) => events.push(type),
  });

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

async function fastifyServer(charges: Charges, events: string[], http2: boolean): Promise<string> {
  const app = Fastify({ forceCloseConnections: true, ...(http2 && { http2: true as never }) });
  app.post("/", { preHandler: forFastify(keysOf(events)) }, (_request, reply) =>
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

test("Fastify destroys the stream of a client that is gone, and the repetition does not run", async () => {
  const charges = new Charges();
  const events: string[] = [];
  const url = await fastifyServer(charges, events, false);
  await sendAndGoAway(url, charges);
  const again = await fetch(url, { method: "POST", headers: HEADERS });
  expect([again.status, charges.count, events]).toEqual([409, 1, ["claimed", "in-progress"]]);
});

test("the same over HTTP/2", async () => {
  const charges = new Charges();
  const events: string[] = [];
  const client = connect(await fastifyServer(charges, events, true));
  onTestFinished(() => client.destroy());
  const send = () => client.request({ ":method": "POST", ":path": "/", ...HEADERS }).end();
  const first = send().on("error", () => undefined);
  await charges.started;
  first.close();
  await charges.abandoned();
  const [headers] = await once(send(), "response");
  expect([headers[":status"], charges.count]).toEqual([409, 1]);
  expect(events).toEqual(["claimed", "in-progress"]);
});

test("pipeline stops when the client is gone, and the repetition does not run", async () => {
  const charges = new Charges();
  const events: string[] = [];
  const handler = forNode(keysOf(events), (_request: IncomingMessage, response: ServerResponse) => {
    pipeline(charges.charge(), response, () => undefined);
  });
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await sendAndGoAway(url, charges);
  const again = await fetch(url, { method: "POST", headers: HEADERS });
  expect([again.status, charges.count]).toEqual([409, 1]);
});
