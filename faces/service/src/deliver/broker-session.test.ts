/** Tests of shared connections to brokers: who shares them, when they are closed, and what is never sent. */
import { Readable } from "node:stream";
import { type VirtualClock, virtualClock } from "@redrive/core";
import { afterEach, describe, expect, it } from "vitest";
import { createTargetPolicy, type TargetPolicy } from "./address-guard.ts";
import {
  type AmqpConduct,
  type AmqpMessage,
  type AmqpPeer,
  type AmqpTestServer,
  amqpTestServer,
} from "./amqp-server.testing.ts";
import { createLightSignal } from "./attempt.ts";
import { makeCertificate } from "./certificate.testing.ts";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import type { Deliverer, DeliverOptions, DeliverRequest } from "./deliverer.ts";
import { honestReply, redisTestServer } from "./redis-server.testing.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean();
});

interface World {
  readonly clock: VirtualClock;
  readonly server: AmqpTestServer;
  readonly deliverer: Deliverer;
  deliver(
    request?: Partial<DeliverRequest>,
    options?: Partial<DeliverOptions>,
  ): ReturnType<Deliverer["deliver"]>;
}

async function world(conduct: AmqpConduct = {}, targets?: TargetPolicy): Promise<World> {
  const clock = virtualClock(1_700_000_000_000);
  const server = await amqpTestServer(conduct);
  const deliverer = testDeliverer({ clock, ...(targets && { targets }) });
  cleanups.push(
    () => server.close(),
    () => deliverer.close(),
  );
  return {
    clock,
    server,
    deliverer,
    deliver: (request = {}, options = {}) =>
      deliverer.deliver(requestTo(server.url(), { headers: {}, ...request }), {
        ...AMPLE,
        ...options,
      }),
  };
}

const loginOf = (user: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:secret`).toString("base64")}`,
});

const closed = (server: AmqpTestServer) =>
  expect.poll(() => server.peers[0]?.socket.closed).toBe(true);

/** Confirms messages when the test says so. */
function held() {
  const waiting: [AmqpPeer, AmqpMessage][] = [];
  const onMessage = (peer: AmqpPeer, message: AmqpMessage) => void waiting.push([peer, message]);
  const release = () => {
    for (const [peer, { channel, tag }] of waiting.splice(0)) peer.ack(channel, tag);
  };
  return { waiting, onMessage, release };
}

describe("a connection to a broker", () => {
  it("is shared by messages at once and by later ones, which reuse the channels", async () => {
    const { server, deliver } = await world();
    const first = await Promise.all([deliver(), deliver(), deliver()]);
    const later = [await deliver(), await deliver()];
    expect([...first, ...later].map(brief)).toEqual(Array(5).fill("success 0"));
    expect([server.peers.length, server.messages.length]).toEqual([1, 5]);
    const opened = server.peers[0]?.received.filter((name) => name === "channel.open");
    expect(opened).toHaveLength(3);
  });

  it("is not shared by different users, virtual hosts or databases", async () => {
    const { server, deliver } = await world();
    const other = server.url().replace("/?", "/other?");
    await Promise.all([
      deliver({ headers: loginOf("a") }),
      deliver({ headers: loginOf("b") }),
      deliver({ headers: loginOf("a") }),
      deliver({ headers: loginOf("a"), targetUrl: other }),
    ]);
    expect(server.peers.length).toBe(3);
  });

  it("has no phases of opening when it is reused", async () => {
    const { deliver } = await world();
    expect((await deliver()).phases.connectMs).not.toBeNull();
    expect((await deliver()).phases.connectMs).toBeNull();
  });

  it("has at most as many channels as the broker allows; other messages wait for one", async () => {
    const { waiting, onMessage, release } = held();
    const { server, deliver } = await world({ onMessage, tuned: { channels: 2 } });
    const results = [deliver(), deliver(), deliver()];
    await expect.poll(() => waiting.length).toBe(2);
    release();
    await expect.poll(() => waiting.length).toBe(1);
    release();
    expect((await Promise.all(results)).map(brief)).toEqual(Array(3).fill("success 0"));
    expect(server.peers.length).toBe(1);
  });

  it("of which one message is refused still answers the others", async () => {
    const { waiting, onMessage } = held();
    const { deliver } = await world({ onMessage });
    const results = [deliver({ body: Buffer.from("bad") }), deliver({ body: Buffer.from("good") })];
    await expect.poll(() => waiting.length).toBe(2);
    for (const [peer, { channel, tag, body }] of waiting) {
      if (body.toString() === "bad") peer.channelClose(channel, 404, "NOT_FOUND");
      else peer.ack(channel, tag);
    }
    expect((await Promise.all(results)).map(brief)).toEqual(["grpc 5", "success 0"]);
  });

  it("is closed after 30 s without a message, with a goodbye", async () => {
    const { clock, server, deliver } = await world();
    await deliver();
    await clock.advance(20_000);
    await deliver();
    await clock.advance(29_000);
    expect(server.peers[0]?.socket.closed).toBe(false);
    await clock.advance(2000);
    await closed(server);
    expect(server.peers[0]?.received.at(-1)).toBe("close");
  });

  it("is closed although the broker does not say goodbye", async () => {
    const { clock, server, deliver } = await world({ onMethod: (_, name) => name === "close" });
    await deliver();
    await clock.advance(31_000);
    await expect.poll(() => server.peers[0]?.received.at(-1)).toBe("close");
    await clock.advance(1000);
    await closed(server);
  });

  it("sends heartbeats while a message waits for its answer", async () => {
    const { waiting, onMessage, release } = held();
    const { clock, server, deliver } = await world({ onMessage, tuned: { heartbeat: 4 } });
    const result = deliver();
    await expect.poll(() => waiting.length).toBe(1);
    const heartbeats = () => server.peers[0]?.received.filter((name) => name === "heartbeat");
    await clock.advance(1000);
    await clock.advance(1000);
    await clock.advance(1000);
    await expect.poll(heartbeats).toHaveLength(1);
    release();
    expect(brief(await result)).toBe("success 0");
  });

  it("is not used after a message on it timed out, but its other messages go on", async () => {
    const { waiting, onMessage, release } = held();
    const { clock, server, deliver } = await world({ onMessage });
    const slow = deliver();
    await expect.poll(() => waiting.length).toBe(1);
    const hurried = deliver({}, { attemptTimeoutMs: 500, connectTimeoutMs: 500 });
    await expect.poll(() => waiting.length).toBe(2);
    await clock.advance(600);
    expect(brief(await hurried)).toBe("error timeout");
    const next = deliver();
    await expect.poll(() => waiting.length).toBe(3);
    expect(server.peers.length).toBe(2);
    release();
    expect((await Promise.all([slow, next])).map(brief)).toEqual(["success 0", "success 0"]);
    await closed(server);
  });

  it("is not used any more when its address is no longer allowed", async () => {
    const targets = { ...createTargetPolicy({ mode: "loopback" }) };
    const { server, deliver } = await world({}, targets);
    expect(brief(await deliver())).toBe("success 0");
    Object.assign(targets, { mode: "public" });
    // The verdict about the URL itself is cached.
    expect(brief(await deliver())).toBe("fault target-denied");
    await closed(server);
    expect(server.messages.length).toBe(1);
  });

  it("that is closed in the turn in which it was opened fails as a connection", async () => {
    const { deliver } = await world({
      onMethod: (peer, name) => {
        if (name === "open") peer.openOk().close(320, "CONNECTION_FORCED");
        return name === "open";
      },
    });
    const { outcome } = await deliver();
    expect(outcome).toEqual({ kind: "error", errorClass: "connect", sent: false });
  });

  it("that floods while it is idle is closed", async () => {
    const { server, deliver } = await world();
    await deliver();
    const [peer] = server.peers;
    for (let n = 0; n < 20; n++) peer?.write(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce, ...spam()]));
    await closed(server);
  });
});

/** A valid frame of 8 kB. */
const spam = () => [3, 0, 9, 0, 0, 0x20, 0, ...new Array(0x2000).fill(0), 0xce];

describe("a broker that blocks publishers", () => {
  it("gets no more messages, and those that it has end at their deadline", async () => {
    const { waiting, onMessage } = held();
    const { clock, server, deliver } = await world({ onMessage });
    const sent = deliver({}, { attemptTimeoutMs: 500, connectTimeoutMs: 500 });
    await expect.poll(() => waiting.length).toBe(1);
    server.peers[0]?.blocked("low on memory");
    await expect
      .poll(async () => brief(await deliver({ body: Buffer.from("more") })))
      .toBe("grpc 8");
    const refused = await deliver();
    expect([bodyOf(refused), refused.errorMessage]).toEqual([
      "low on memory",
      "the broker blocks publishers, because it lacks memory or disk space",
    ]);
    await clock.advance(600);
    expect(brief(await sent)).toBe("grpc 8");
    expect(server.messages.length).toBe(1);
    expect(server.peers.length).toBe(1);
  });

  it("gets messages again after it has unblocked them", async () => {
    const { server, deliver } = await world();
    await deliver();
    const [peer] = server.peers;
    peer?.blocked("low on disk");
    await expect.poll(async () => brief(await deliver())).toBe("grpc 8");
    peer?.unblocked();
    await expect.poll(async () => brief(await deliver())).toBe("success 0");
    expect(server.peers.length).toBe(1);
  });
});

describe("a message", () => {
  it("goes to its queue, and comes back if no queue takes it", async () => {
    const { server, deliver } = await world();
    await deliver();
    expect(server.messages).toMatchObject([
      { routingKey: "orders", isMandatory: true, body: Buffer.from("hello") },
    ]);
  });

  it("is not sent if its attempt may not start", async () => {
    const { server, deliver } = await world();
    await deliver();
    expect(brief(await deliver({}, { mayStart: () => false }))).toBe("aborted");
    expect(brief(await deliver())).toBe("success 0");
    expect(server.messages.length).toBe(2);
  });

  it("is asked for its start after the login and immediately before it is sent", async () => {
    const seen: string[] = [];
    const { server, deliver } = await world({
      onMessage: (peer, { channel, tag }) => {
        seen.push("message");
        peer.ack(channel, tag);
      },
    });
    const mayStart = () => {
      seen.push(server.peers[0]?.received.at(-1) ?? "");
      return true;
    };
    await deliver({}, { mayStart });
    expect(seen).toEqual(["confirm.select", "message"]);
  });

  it("that is aborted before it is sent stays unsent", async () => {
    const signal = createLightSignal();
    const { server, deliver } = await world({
      onMethod: (_, name) => {
        if (name === "channel.open") signal.abort();
        return false;
      },
    });
    expect(brief(await deliver({}, { signal }))).toBe("aborted");
    expect(brief(await deliver())).toBe("success 0");
    expect(server.messages.length).toBe(1);
  });

  it("that is aborted after it was sent ends at once", async () => {
    const signal = createLightSignal();
    const { waiting, onMessage } = held();
    const { deliver } = await world({ onMessage });
    const result = deliver({}, { signal });
    await expect.poll(() => waiting.length).toBe(1);
    signal.abort();
    expect(brief(await result)).toBe("aborted");
  });

  it("may be long, and comes from a stream", async () => {
    const { server, deliver } = await world();
    const body = Buffer.alloc(1_000_000, "0123456789");
    const stream = { stream: Readable.from([body.subarray(0, 7), body.subarray(7)]), length: 1e6 };
    expect(brief(await deliver({ body: null, stream }))).toBe("success 0");
    expect(server.messages[0]?.body.equals(body)).toBe(true);
  });

  it("whose stream breaks off is not sent", async () => {
    const { server, deliver } = await world();
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from("start");
        throw new Error("the disk is gone");
      })(),
    );
    const result = await deliver({ body: null, stream: { stream: broken, length: 9 } });
    expect(result.outcome).toMatchObject({ kind: "error", sent: false });
    expect(server.peers.length).toBe(0);
  });

  it("with headers that do not fit into a frame is refused", async () => {
    const { server, deliver } = await world({ tuned: { frameBytes: 4096 } });
    const result = await deliver({ headers: { "x-long": "x".repeat(5000) } });
    expect(brief(result)).toBe("grpc 3");
    expect(brief(await deliver({ body: Buffer.alloc(10_000) }))).toBe("success 0");
    expect(server.messages.map(({ body }) => body.length)).toEqual([10_000]);
  });

  it("to a name is not sent to an address that is not allowed, also if the name moves there", async () => {
    const addresses = ["127.0.0.1", "10.0.0.1"];
    const server = await redisTestServer(honestReply);
    const deliverer = testDeliverer({
      resolve: async () => [{ address: addresses.shift() ?? "", family: 4 }],
    });
    cleanups.push(
      () => server.close(),
      () => deliverer.close(),
    );
    const targetUrl = server.url().replace("127.0.0.1", "broker.example");
    expect(brief(await deliverer.deliver(requestTo(targetUrl), AMPLE))).toBe("success 0");
    const other = { authorization: `Basic ${Buffer.from("a:b").toString("base64")}` };
    const rebound = await deliverer.deliver(requestTo(targetUrl, { headers: other }), AMPLE);
    expect(brief(rebound)).toBe("fault target-denied");
    const literal = requestTo("amqp://10.0.0.1/?queue=q");
    expect(brief(await deliverer.deliver(literal, AMPLE))).toBe("fault target-denied");
  });
});

describe("a broker with TLS", () => {
  it("is verified by its name before it gets anything", async () => {
    const authority = makeCertificate({ name: "Test Authority" });
    const { cert, key } = makeCertificate({ name: "broker.example", issuer: authority });
    const server = await redisTestServer(honestReply, { cert, key });
    const deliverer = testDeliverer({ ca: authority.cert });
    cleanups.push(
      () => server.close(),
      () => deliverer.close(),
    );
    const send = (host: string) => {
      const url = server.url().replace("redis-stream://127.0.0.1", `rediss-stream://${host}`);
      return deliverer.deliver(requestTo(url), AMPLE);
    };
    expect(brief(await send("other.example"))).toBe("error tls");
    expect(server.commands).toEqual([]);
    const result = await send("broker.example");
    expect(brief(result)).toBe("success 0");
    expect(result.phases.tlsMs).not.toBeNull();
  });
});

describe("closing", () => {
  it("lets running messages end, and refuses later ones", async () => {
    const { waiting, onMessage, release } = held();
    const { server, deliver, deliverer } = await world({ onMessage });
    const running = deliver();
    await expect.poll(() => waiting.length).toBe(1);
    const closing = deliverer.close();
    expect(brief(await deliver())).toBe("aborted");
    release();
    expect(brief(await running)).toBe("success 0");
    await closing;
    await closed(server);
  });
});
