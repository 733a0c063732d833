/**
 * The scope of a request being served lasts on every framework until its response has ended: through
 * awaits, timers and streams, beside other requests, and not into the next request of the connection.
 */
import { EventEmitter, once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { virtualClock } from "@redrive/core";
import { retry } from "redrive";
import { type IncomingLayerOptions, incomingLayer, type ServedRequest } from "redrive/server";
import { afterEach, describe, expect, test } from "vitest";
import {
  type Answer,
  type Application,
  FRAMEWORKS,
  type RunningServer,
} from "./framework-servers.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** The budget of a call that has no deadline of a caller. */
const OWN_MS = 30_000;

const clock = virtualClock(1_700_000_000_000);

/** What a call knows about the request for which it is made. */
async function lookAround() {
  let attempts = 0;
  const call = retry(
    ({ deadlineAt }) => {
      attempts++;
      if (attempts < 2) throw new Error("not yet");
      return deadlineAt;
    },
    { clock, totalBudgetMs: OWN_MS, initialDelayMs: 0, maxAttempts: 2 },
  );
  const deadlineOf = () => retry(({ deadlineAt }) => deadlineAt, { clock, totalBudgetMs: OWN_MS });
  const mayRetry = await clock.run(call).then(
    () => true,
    () => false,
  );
  return { leftMs: (await deadlineOf()) - clock.now(), mayRetry };
}

const answerWith = (value: unknown): Answer => ({
  status: 200,
  headers: {},
  body: Buffer.from(JSON.stringify(value)),
});

const headersOf = (remainingMs: number) => ({
  "redrive-attempt": "1",
  "redrive-remaining-ms": String(remainingMs),
});

describe.each(FRAMEWORKS)("%s", (_, openServer) => {
  async function open(application: Application, options: IncomingLayerOptions = {}) {
    const layer = incomingLayer({ trust: "all", clock, ...options });
    const server: RunningServer = await openServer(layer as never, application);
    closers.push(server.close);
    const init = (headers: Record<string, string>) => ({
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ text: "x".repeat(10_000) }),
    });
    const send = async (headers: Record<string, string> = {}) => {
      const response = await fetch(`${server.url}/api/work`, init(headers));
      return JSON.parse(await response.text());
    };
    return { server, send, init };
  }

  test("a handler has it after awaits and timers", async () => {
    const { send } = await open(async () => {
      await null;
      await sleep(1);
      await new Promise(setImmediate);
      return answerWith(await lookAround());
    });
    expect(await send(headersOf(900))).toEqual({ leftMs: 900, mayRetry: false });
    expect(await send()).toEqual({ leftMs: OWN_MS, mayRetry: true });
  });

  test("concurrent requests have their own", async () => {
    const started = new EventEmitter().setMaxListeners(0);
    let running = 0;
    const { send } = await open(async () => {
      if (++running < 20) await once(started, "all");
      else started.emit("all");
      return answerWith((await lookAround()).leftMs);
    });
    const remaining = Array.from({ length: 20 }, (_one, index) => 1000 + index);
    expect(await Promise.all(remaining.map((ms) => send(headersOf(ms))))).toEqual(remaining);
  });

  test("the next request of the connection does not have it", async () => {
    const { server, init } = await open(async () => {
      await sleep(1);
      return answerWith(await lookAround());
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    closers.push(async () => agent.destroy());
    const ports = new Set<number | undefined>();
    const send = async (given: Record<string, string>) => {
      const { method, headers, body } = init(given);
      const request = httpRequest(`${server.url}/api/work`, { agent, method, headers }).end(body);
      const [response] = await once(request, "response");
      ports.add(request.socket?.localPort);
      let text = "";
      for await (const chunk of response) text += chunk;
      return JSON.parse(text);
    };
    expect(await send(headersOf(700))).toEqual({ leftMs: 700, mayRetry: false });
    expect(await send({})).toEqual({ leftMs: OWN_MS, mayRetry: true });
    expect(await send(headersOf(800))).toEqual({ leftMs: 800, mayRetry: false });
    expect(ports.size).toBe(1);
  });

  test("a stream has it until it ends, and work that goes on after that has not", async () => {
    const later: Promise<unknown>[] = [];
    const ended = new EventEmitter();
    const { send } = await open(async () => {
      later.push(once(ended, "response").then(lookAround));
      const stream = (async function* () {
        yield Buffer.from("[");
        await sleep(1);
        yield Buffer.from(`${JSON.stringify(await lookAround())},`);
        await sleep(1);
        yield Buffer.from(`${JSON.stringify(await lookAround())}]`);
      })();
      return { status: 200, headers: {}, body: Buffer.of(), stream };
    });
    const inside = { leftMs: 900, mayRetry: false };
    expect(await send(headersOf(900))).toEqual([inside, inside]);
    // The server learns it a little later than the client.
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
    ended.emit("response");
    expect(await Promise.all(later)).toEqual([{ leftMs: OWN_MS, mayRetry: true }]);
  });

  test("nobody is trusted by default, and then no async context is entered", async () => {
    const { send } = await open(async () => answerWith(await lookAround()), { trust: undefined });
    expect(await send(headersOf(1))).toEqual({ leftMs: OWN_MS, mayRetry: true });
  });

  test("trust can depend on the request, and minRemainingMs is the least time", async () => {
    const trust = (request: ServedRequest) => request.header("x-mesh") === "own";
    const { send } = await open(
      async () => {
        await sleep(1);
        return answerWith((await lookAround()).leftMs);
      },
      { trust, minRemainingMs: 200 },
    );
    expect(await send({ ...headersOf(5), "x-mesh": "own" })).toBe(200);
    expect(await send({ ...headersOf(5), "x-mesh": "other" })).toBe(OWN_MS);
  });

  test("a handler that throws ends it too", async () => {
    const later: Promise<unknown>[] = [];
    const ended = new EventEmitter();
    const { server, init } = await open(async () => {
      later.push(once(ended, "response").then(lookAround));
      await sleep(1);
      throw new Error("broken");
    });
    expect((await fetch(`${server.url}/api/work`, init(headersOf(900)))).status).toBe(500);
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
    ended.emit("response");
    expect(await Promise.all(later)).toEqual([{ leftMs: OWN_MS, mayRetry: true }]);
  });
});
