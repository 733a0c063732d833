/**
 * Tests of the limit per address: one machine cannot use all connections. Tests of slow readers,
 * with real sockets and a virtual clock.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { virtualClock } from "@redrive/core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AddressLimit, SlowReaders } from "./connection-limits.ts";

describe("the connections of one address", () => {
  it("are counted, refused above the limit, and forgotten when they end", () => {
    const limit = new AddressLimit(2);
    const leaves = [limit.enter("203.0.113.7"), limit.enter("203.0.113.7")];
    expect(limit.enter("203.0.113.7")).toBeUndefined();
    leaves[0]?.();
    const next = limit.enter("203.0.113.7");
    expect(next).toBeTypeOf("function");
    leaves[1]?.();
    next?.();
    expect(limit.size).toBe(0);
  });

  it.each([
    ["another IPv4 address", "203.0.113.7", "203.0.113.8", true],
    ["the same address in IPv6 form", "203.0.113.7", "::ffff:203.0.113.7", false],
    ["another address of the same /64", "2001:db8::1", "2001:db8::2", false],
    ["another /64", "2001:db8::1", "2001:db8:0:1::1", true],
    ["a link-local address with another zone", "fe80::1%eth0", "fe80::1%eth1", false],
  ])("%s: %s and %s", (_what, first, second, isAdmitted) => {
    const limit = new AddressLimit(1);
    limit.enter(first);
    expect(limit.enter(second) !== undefined).toBe(isAdmitted);
  });

  it.each(["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", undefined])(
    "%s is not limited",
    (address) => {
      const limit = new AddressLimit(1);
      expect([limit.enter(address), limit.enter(address)].includes(undefined)).toBe(false);
      expect(limit.size).toBe(0);
    },
  );
});

describe("slow readers", () => {
  const TIMEOUT_MS = 20_000;
  /** More than the system buffers. */
  const LONG = Buffer.alloc(64 << 20);

  let server: Server;
  beforeEach(async () => {
    server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterEach(() => server.close());

  async function pair(): Promise<{ client: Socket; served: Socket }> {
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const [served] = (await once(server, "connection")) as [Socket];
    for (const socket of [client, served]) socket.on("error", () => {});
    return { client, served };
  }

  describe("a client that reads nothing", () => {
    it("is disconnected after the timeout if a response is unsent", async () => {
      const clock = virtualClock();
      const { client, served } = await pair();
      new SlowReaders(clock, TIMEOUT_MS).watch(served);
      served.write(LONG);
      await clock.advance(TIMEOUT_MS - 1);
      expect(served.destroyed).toBe(false);
      await clock.advance(TIMEOUT_MS / 2);
      expect(served.destroyed).toBe(true);
      await once(served, "close");
      await clock.advance(TIMEOUT_MS);
      expect(clock.pending()).toBe(0);
      client.destroy();
    });

    it("is kept if nothing is unsent: it waits for its response", async () => {
      const clock = virtualClock();
      const { client, served } = await pair();
      new SlowReaders(clock, TIMEOUT_MS).watch(served);
      await clock.advance(10 * TIMEOUT_MS);
      expect(served.destroyed).toBe(false);
      client.destroy();
    });
  });

  it("a client that reads a part of one long write within each timeout is kept", async () => {
    const clock = virtualClock();
    const { client, served } = await pair();
    new SlowReaders(clock, TIMEOUT_MS).watch(served);
    served.write(LONG);
    let received = 0;
    while (received < LONG.length / 2) {
      // The system sends in large pieces: several megabytes fit into its buffers.
      let piece = 0;
      while (piece < 8 << 20) {
        const chunk: Buffer | null = client.read();
        if (chunk === null) await once(client, "readable");
        piece += chunk?.length ?? 0;
      }
      received += piece;
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(TIMEOUT_MS * 0.9);
      expect(served.destroyed).toBe(false);
    }
    expect(served.writableLength).toBe(LONG.length);
    client.destroy();
  });
});
