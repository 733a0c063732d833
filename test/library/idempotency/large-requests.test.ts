/** A request body over the limit gets a 413 that its client can read, on every framework and protocol. */
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, type Server } from "node:net";
import {
  forNode,
  idempotency,
  memoryStore,
  type NodeRequest,
  type NodeResponse,
} from "redrive/idempotency";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { FRAMEWORKS } from "../framework-servers.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const PART = Buffer.alloc(1024 * 1024, "x");
/** More than the buffers between client and server hold. */
const PARTS = 12;

const keysOf = () =>
  idempotency<never>({ store: memoryStore(), scope: () => "shop", maxRequestBytes: 1000 });

interface Sending {
  write(chunk: Uint8Array): boolean;
  once(event: string, listener: () => void): unknown;
}

/** Sends the whole body before it looks at anything that comes back. */
async function sendParts(sending: Sending, frame: (part: Buffer) => Buffer): Promise<void> {
  for (let count = 0; count < PARTS; count++) {
    const hasRoom = sending.write(frame(PART));
    if (!hasRoom) await new Promise<void>((resolve) => sending.once("drain", resolve));
  }
}

const chunkOf = (part: Buffer) =>
  Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n")]);

/** A parser that runs before the keys has its own limit. */
const SERVERS = FRAMEWORKS.filter(([name]) => !/after the parser|Fastify/.test(name));

describe.each(SERVERS)("%s", (_, openServer) => {
  async function open() {
    let runs = 0;
    const server = await openServer(keysOf() as never, async () => {
      runs++;
      return { status: 201, headers: {}, body: Buffer.from("charged") };
    });
    closers.push(server.close);
    return { url: `${server.url}/api/charges`, runs: () => runs };
  }

  const head = (url: URL, lines: readonly string[]) =>
    [`POST ${url.pathname} HTTP/1.1`, `Host: ${url.host}`, "Idempotency-Key: k", ...lines]
      .map((line) => `${line}\r\n`)
      .join("");

  const LENGTH = `Content-Length: ${PARTS * PART.length}`;

  test.each([
    ["with a length", [LENGTH]],
    ["in chunks", ["Transfer-Encoding: chunked"]],
    ["with a length, on a connection that closes", [LENGTH, "Connection: close"]],
    ["in chunks, on a connection that closes", ["Transfer-Encoding: chunked", "Connection: close"]],
  ])("a client that sends everything before it reads has the 413: %s", async (_name, lines) => {
    const { url, runs } = await open();
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    closers.push(async () => socket.destroy());
    socket.pause();
    socket.write(`${head(new URL(url), lines)}\r\n`);
    const isChunked = lines.includes("Transfer-Encoding: chunked");
    await sendParts(socket, isChunked ? chunkOf : (part) => part);
    if (isChunked) socket.write("0\r\n\r\n");
    let text = "";
    for await (const chunk of socket) {
      text += chunk;
      if (text.includes("BODY_TOO_LARGE")) break;
    }
    expect(text).toMatch(/^HTTP\/1.1 413 /);
    expect(text).toContain("BODY_TOO_LARGE");
    expect(runs()).toBe(0);
  });

  test("Node's own client reads it while it sends, with and without 100 Continue", async () => {
    const { url } = await open();
    for (const more of [{}, { expect: "100-continue" }]) {
      const headers = { "idempotency-key": "k", "content-length": PARTS * PART.length, ...more };
      const request = httpRequest(url, { method: "POST", headers });
      request.on("error", () => undefined);
      const responded = once(request, "response");
      request.flushHeaders();
      if ("expect" in more) await once(request, "continue");
      request.write(PART);
      const [response] = (await responded) as [IncomingMessage];
      let text = "";
      for await (const chunk of response) text += chunk;
      expect([response.statusCode, JSON.parse(text).code]).toEqual([413, "BODY_TOO_LARGE"]);
      request.destroy();
    }
  });

  test("fetch reads it, and sends its next request", async () => {
    const { url } = await open();
    const body = Buffer.alloc(PARTS * PART.length);
    const headers = { "content-type": "application/json", "idempotency-key": "k" };
    const response = await fetch(url, { method: "POST", headers, body });
    expect([response.status, (await response.json()).code]).toEqual([413, "BODY_TOO_LARGE"]);
    expect((await fetch(url, { method: "POST", headers, body: "{}" })).status).toBe(201);
  });
});

test("a stream of HTTP/2 that sends everything before it reads has the 413", async () => {
  const handler = forNode<NodeRequest, NodeResponse>(keysOf() as never, () => {
    throw new Error("it must not run");
  });
  const server = createHttp2Server((request, response) => {
    void handler(request as unknown as NodeRequest, response as unknown as NodeResponse);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = (server as unknown as Server).address() as AddressInfo;
  const client = connectHttp2(`http://127.0.0.1:${port}`);
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  for (const more of [{}, { "content-length": String(PARTS * PART.length) }]) {
    const path = { ":method": "POST", ":path": "/", "idempotency-key": "k", ...more };
    const stream = client.request(path);
    const responded = once(stream, "response");
    await Promise.race([sendParts(stream, (part) => part), once(stream, "close")]);
    stream.end();
    const [headers] = (await responded) as [Record<string, string>];
    let text = "";
    for await (const chunk of stream) text += chunk;
    expect([headers[":status"], JSON.parse(text).code]).toEqual([413, "BODY_TOO_LARGE"]);
  }
});
