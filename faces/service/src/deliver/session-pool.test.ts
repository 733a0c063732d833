/** Tests of shared connections to gRPC servers: who shares them, and when they are closed. */
import { once } from "node:events";
import { type VirtualClock, virtualClock } from "@redrive/core";
import { afterEach, describe, expect, it } from "vitest";
import { createTargetPolicy, type TargetPolicy } from "./address-guard.ts";
import { AMPLE, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import type { Deliverer } from "./deliverer.ts";
import {
  type Conduct,
  type HostileHttp2,
  type HostileHttp2Options,
  hostileHttp2,
} from "./hostile-http2.testing.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean();
});

interface World {
  readonly clock: VirtualClock;
  readonly server: HostileHttp2;
  readonly deliverer: Deliverer;
  deliver(): ReturnType<Deliverer["deliver"]>;
}

async function world(
  conduct: Conduct = (peer, stream) => void peer.respond(stream),
  options: HostileHttp2Options & { readonly targets?: TargetPolicy } = {},
): Promise<World> {
  const clock = virtualClock(1_700_000_000_000);
  const server = await hostileHttp2(conduct, options);
  const { targets } = options;
  const deliverer = testDeliverer({ clock, ...(targets && { targets }) });
  cleanups.push(
    () => server.close(),
    () => deliverer.close(),
  );
  const deliver = () => deliverer.deliver(requestTo(server.url, { headers: {} }), AMPLE);
  return { clock, server, deliverer, deliver };
}

const closed = async (server: HostileHttp2, index = 0) => {
  const socket = server.peers[index]?.socket;
  if (socket && !socket.closed) await once(socket, "close");
};

describe("a connection", () => {
  it("is shared by calls at once and by later calls", async () => {
    const { server, deliver } = await world();
    const first = await Promise.all([deliver(), deliver(), deliver()]);
    const later = await deliver();
    expect([...first, later].map(brief)).toEqual(Array(4).fill("success 0"));
    expect([server.peers.length, server.calls()]).toEqual([1, 4]);
  });

  it("has no phases of opening when it is reused", async () => {
    const { deliver } = await world();
    expect((await deliver()).phases.connectMs).not.toBeNull();
    expect((await deliver()).phases.connectMs).toBeNull();
  });

  it("gets at most as many calls as the target allows; others use another connection", async () => {
    const waiting: (() => void)[] = [];
    const { server, deliver } = await world(
      (peer, stream) => {
        if (server.calls() <= 1) peer.respond(stream);
        else waiting.push(() => peer.respond(stream));
      },
      { greet: (peer) => void peer.settings([3, 2]) },
    );
    await deliver();
    const calls = [deliver(), deliver(), deliver()];
    await expect.poll(() => waiting.length).toBe(3);
    expect(server.peers.length).toBe(2);
    for (const respond of waiting) respond();
    expect((await Promise.all(calls)).map(brief)).toEqual(Array(3).fill("success 0"));
  });

  it("is closed after 30 s without a call", async () => {
    const { clock, server, deliver } = await world();
    await deliver();
    await clock.advance(20_000);
    await deliver();
    await clock.advance(29_000);
    expect(server.peers[0]?.socket.closed).toBe(false);
    await clock.advance(2000);
    await closed(server);
    expect(brief(await deliver())).toBe("success 0");
    expect(server.peers.length).toBe(2);
  });

  it("gets no call after 5 minutes, although it was never idle for long", async () => {
    const { clock, server, deliver } = await world();
    for (let n = 0; n <= 16; n++) {
      await deliver();
      await clock.advance(20_000);
    }
    await closed(server);
    expect(server.peers.length).toBe(2);
  });

  it("is not used after a call on it timed out, but its other calls go on", async () => {
    const waiting: (() => void)[] = [];
    const { clock, server, deliverer, deliver } = await world((peer, stream, call) => {
      if (call === 1) waiting.push(() => peer.respond(stream));
      else if (call === 3) peer.respond(stream);
    });
    const slow = deliver();
    await expect.poll(() => server.calls()).toBe(1);
    const hurried = { attemptTimeoutMs: 500, connectTimeoutMs: 500 };
    const timedOut = deliverer.deliver(requestTo(server.url, { headers: {} }), hurried);
    await expect.poll(() => server.calls()).toBe(2);
    await clock.advance(600);
    expect(brief(await timedOut)).toBe("error timeout");
    expect(brief(await deliver())).toBe("success 0");
    expect(server.peers.length).toBe(2);
    for (const respond of waiting) respond();
    expect(brief(await slow)).toBe("success 0");
    await closed(server);
  });

  it("is not used any more when its address is no longer allowed", async () => {
    const targets = { ...createTargetPolicy({ mode: "loopback" }) };
    const { server, deliver, deliverer } = await world(undefined, { targets });
    expect(brief(await deliver())).toBe("success 0");
    Object.assign(targets, { mode: "public" });
    // The verdict about the URL itself is cached.
    expect(brief(await deliver())).toBe("fault target-denied");
    await closed(server);
    expect(server.calls()).toBe(1);
    await deliverer.close();
  });

  it("that floods while it is idle is closed", async () => {
    const { clock, server, deliver } = await world();
    await deliver();
    const [peer] = server.peers;
    for (let n = 0; n < 10; n++) peer?.frame(0xfa, 0, 0, Buffer.alloc(16_000));
    await new Promise((resolve) => peer?.socket.write("", resolve));
    await expect
      .poll(async () => {
        await clock.advance(1000);
        return peer?.socket.closed;
      })
      .toBe(true);
  });

  it("that fails to open fails all calls that wait for it", async () => {
    const { server, deliver, deliverer } = await world();
    await server.close();
    cleanups.splice(0);
    const results = await Promise.all([deliver(), deliver()]);
    expect(results.map(brief)).toEqual(["error connect", "error connect"]);
    await deliverer.close();
  });
});

describe("closing", () => {
  it("lets running calls end, and refuses later ones", async () => {
    const waiting: (() => void)[] = [];
    const { server, deliver, deliverer } = await world((peer, stream) => {
      waiting.push(() => peer.respond(stream));
    });
    const running = deliver();
    await expect.poll(() => waiting.length).toBe(1);
    let isClosed = false;
    const closing = deliverer.close().then(() => {
      isClosed = true;
    });
    expect(brief(await deliver())).toBe("aborted");
    expect(isClosed).toBe(false);
    for (const respond of waiting) respond();
    expect(brief(await running)).toBe("success 0");
    await closing;
    await closed(server);
  });
});
