/** The limiter behaves the same on every framework, over real connections: it refuses, and no slot is lost. */
import { EventEmitter, once } from "node:events";
import { createServer, get } from "node:http";
import { connect, createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import {
  forExpress,
  forNode,
  type NodeRequest,
  type NodeResponse,
  type OverloadLimiterOptions,
  overloadLimiter,
} from "redrive/server";
import { afterEach, describe, expect, test } from "vitest";
import { type Answer, FRAMEWORKS, type RunningServer } from "../framework-servers.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const DONE: Answer = { status: 200, headers: {}, body: Buffer.from("done") };

/** An application whose requests wait until the test ends them. */
function heldApplication() {
  const started = new EventEmitter();
  const running: { finish(): void; fail(): void }[] = [];
  const application = () =>
    new Promise<Answer>((resolve, reject) => {
      running.push({ finish: () => resolve(DONE), fail: () => reject(new Error("broken")) });
      started.emit("start");
    });
  return { application, running, started };
}

/** One slot and no queue. Resolves when the slot is free again. */
function oneSlot(more: OverloadLimiterOptions = {}) {
  const limiter = overloadLimiter({ max: 1, queue: 0, algorithm: "FIXED", ...more });
  const free = async () => {
    while (limiter.stats().inFlight > 0) await new Promise(setImmediate);
  };
  return { limiter, free };
}

describe.each(FRAMEWORKS)("%s", (_, openServer) => {
  test("refuses with Retry-After, and every end of a request returns its slot", async () => {
    const { limiter, free } = oneSlot();
    const { application, running, started } = heldApplication();
    const server: RunningServer = await openServer(limiter as never, application);
    closers.push(server.close);
    const send = (signal?: AbortSignal) =>
      fetch(`${server.url}/api/x`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
        ...(signal && { signal }),
      });

    for (const end of ["finish", "fail"] as const) {
      const begun = once(started, "start");
      const first = send();
      await begun;
      const refused = await send();
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d?$/);
      expect(await refused.json()).toMatchObject({ code: "SERVER_OVERLOADED" });
      running.shift()?.[end]();
      expect((await first).status).toBe(end === "finish" ? 200 : 500);
      await free();
    }
    expect(limiter.stats()).toMatchObject({ admitted: 2, shed: { overload: 2 } });
  });
});

test("a client that closes its connection returns its slot and its place in the queue", async () => {
  const { limiter, free } = oneSlot({ queue: 1, maxQueueMs: 60_000 });
  const started = new EventEmitter();
  const server = createServer(forNode(limiter, () => void started.emit("start")));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => once(server.close(), "close"));
  const { port } = server.address() as AddressInfo;
  const send = () => get({ port, host: "127.0.0.1" }).on("error", () => undefined);

  const begun = once(started, "start");
  const first = send();
  await begun;
  const waiting = send();
  while (limiter.stats().queued === 0) await new Promise(setImmediate);
  waiting.destroy();
  while (limiter.stats().queued > 0) await new Promise(setImmediate);
  first.destroy();
  await free();
  expect(limiter.stats()).toMatchObject({ admitted: 1, shed: { deadline: 1 } });
});

test("a client that was gone before the limiter ran holds no slot", async () => {
  const { limiter, free } = oneSlot();
  const middleware = forExpress(limiter);
  const server = createServer((request, response) => {
    response.once("close", () => middleware(request, response, () => undefined));
    response.flushHeaders();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => once(server.close(), "close"));
  const { port } = server.address() as AddressInfo;
  const client = get({ port, host: "127.0.0.1" }).on("error", () => undefined);
  await once(client, "response");
  client.destroy();
  while (limiter.stats().admitted === 0) await new Promise(setImmediate);
  await free();
});

test("a stream of HTTP/2 that is reset returns its slot", async () => {
  const { limiter, free } = oneSlot();
  const started = new EventEmitter();
  const handler = forNode(limiter, () => void started.emit("start"));
  const server = createHttp2Server((request, response) => {
    void handler(request as unknown as NodeRequest, response as unknown as NodeResponse);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  closers.push(() => {
    session.destroy();
    const closed = once(server, "close");
    // On Node 24, the `close` of a server of HTTP/2 returns nothing.
    server.close();
    return closed;
  });
  const begun = once(started, "start");
  const stream = session.request({ ":path": "/" });
  await begun;
  stream.close();
  await free();
});
