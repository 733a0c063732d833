/** Tests of one attempt at a target that follows HTTP. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Socket } from "node:net";
import { systemClock } from "@redrive/core";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, it, onTestFinished } from "vitest";
import { createLightSignal } from "./attempt.ts";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, type HostileServer, hostileServer } from "./hostile-server.testing.ts";
import { complete, response } from "./hostile-table.testing.ts";
import type { ResolvedAddress } from "./lookup.ts";

const STATUS_IS_IN = "undici:request:headers";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const servers: HostileServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(behavior: Behavior): Promise<HostileServer> {
  const server = await hostileServer(behavior);
  servers.push(server);
  return server;
}

describe("the end of an attempt", () => {
  it("by its signal closes the request", async () => {
    const controller = new AbortController();
    const server = await serve(() => controller.abort());
    const result = await deliverer.deliver(requestTo(server.url()), {
      ...AMPLE,
      signal: controller.signal,
    });
    expect(brief(result)).toBe("aborted");
    const [socket] = server.sockets;
    if (!socket?.destroyed) await once(socket!, "close");
  });

  it("comes before the first byte if the caller may not start any more", async () => {
    const server = await serve(complete(200));
    const answers = [true, false];
    const mayStart = () => answers.shift() ?? true;
    const send = () => deliverer.deliver(requestTo(server.url()), { ...AMPLE, mayStart });
    expect([brief(await send()), brief(await send())]).toEqual(["success 200", "aborted"]);
    expect(server.requests).toHaveLength(1);
  });

  it("comes before the start if the signal is already aborted", async () => {
    const server = await serve(complete(200));
    const signal = AbortSignal.abort();
    expect(brief(await deliverer.deliver(requestTo(server.url()), { ...AMPLE, signal }))).toBe(
      "aborted",
    );
    expect(server.sockets.length).toBe(0);
  });

  it("while connecting leaves no socket and sends nothing later", async () => {
    let resolveName = (_: readonly ResolvedAddress[]) => {};
    const resolve = () =>
      new Promise<readonly ResolvedAddress[]>((done) => {
        resolveName = done;
      });
    const slow = testDeliverer({ resolve });
    const server = await serve(complete(200));
    const result = await slow.deliver(requestTo(server.url("/", "slow.example")), SHORT);
    expect(result.outcome).toMatchObject({ kind: "error", sent: false });
    resolveName([{ address: "127.0.0.1", family: 4 }]);
    await slow.close();
    // When a later connection has been served, an earlier one would have been seen.
    await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect(server.sockets.length).toBe(1);
  });

  it("on a connection that is still being checked sends nothing later", async () => {
    const server = await serve(complete(200));
    await deliverer.deliver(requestTo(server.url("/first")), AMPLE);
    await systemClock.sleep(1);
    const signal = createLightSignal();
    const aborted = deliverer.deliver(requestTo(server.url("/aborted")), { ...AMPLE, signal });
    signal.abort();
    expect(brief(await aborted)).toBe("aborted");
    await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect(server.requests.map(({ path }) => path)).toEqual(["/first", "/honest"]);
  });

  it("keeps a status that was received before the abort", async () => {
    const controller = new AbortController();
    const server = await serve("HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\nhalf");
    // undici reports just before it passes the status on; by the next tick it has done so.
    const onStatus = () => void setImmediate(() => controller.abort());
    subscribe(STATUS_IS_IN, onStatus);
    onTestFinished(() => void unsubscribe(STATUS_IS_IN, onStatus));
    const result = await deliverer.deliver(requestTo(server.url()), {
      ...AMPLE,
      signal: controller.signal,
    });
    expect(brief(result)).toBe("status 500 truncated");
  });

  it("leaves no listener on a shared signal", async () => {
    const server = await serve(complete(200));
    const listeners = new Set<unknown>();
    const signal = {
      aborted: false,
      reason: undefined,
      addEventListener: (_: "abort", listener: () => void) => void listeners.add(listener),
      removeEventListener: (_: "abort", listener: () => void) => void listeners.delete(listener),
    };
    await Promise.all(
      Array.from({ length: 20 }, () =>
        deliverer.deliver(requestTo(server.url()), { ...AMPLE, signal }),
      ),
    );
    expect(listeners.size).toBe(0);
  });

  it("delays close, after which attempts are aborted", async () => {
    let arrived = (_: Socket) => {};
    const arrival = new Promise<Socket>((resolve) => {
      arrived = resolve;
    });
    const server = await serve((socket) => arrived(socket));
    const closing = testDeliverer();
    const running = closing.deliver(requestTo(server.url()), AMPLE);
    const socket = await arrival;
    const closed = Promise.all([closing.close(), closing.close()]);
    socket.write(complete(200));
    await closed;
    expect(brief(await running)).toBe("success 200");
    expect(brief(await closing.deliver(requestTo(server.url()), AMPLE))).toBe("aborted");
  });
});

describe("any response of a target", () => {
  const legal = [
    response(200, "body", "content-type: text/plain", "retry-after: 5"),
    `${complete(103)}${response(503, "body")}`,
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nx-trailer: 1\r\n\r\n",
  ];
  const edit = fc.record({
    at: fc.nat(),
    cut: fc.nat(8),
    insert: fc.string({ unit: "binary", maxLength: 4 }),
  });
  const mutated = fc
    .tuple(fc.constantFrom(...legal), fc.array(edit, { maxLength: 3 }))
    .map(([text, edits]) =>
      edits.reduce((result, { at, cut, insert }) => {
        const index = at % (result.length + 1);
        return result.slice(0, index) + insert + result.slice(index + cut);
      }, text),
    );

  it("ends the attempt with a value and does not affect the next one", async () => {
    let sent = "";
    const server = await serve((socket) => void socket.end(sent, "latin1"));
    await fc.assert(
      fc.asyncProperty(mutated, async (text) => {
        sent = text;
        const result = await deliverer.deliver(requestTo(server.url()), AMPLE);
        expect(["success", "status", "error"]).toContain(result.outcome.kind);
        expect(result.durationMs).toBeLessThan(AMPLE.attemptTimeoutMs);
        const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
        expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
      }),
      { numRuns: 300 },
    );
  });
});
