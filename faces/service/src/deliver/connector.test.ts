/**
 * Dynamic rows of the table of forbidden targets, and row 38 of the table of hostile targets, on
 * real sockets with a simulated DNS. Tests of cached TLS sessions. Tests of the limit of received
 * bytes: no flood of a target occupies the service until the deadline. Tests of informational
 * responses: a target may send any number of them before its response.
 */
import type { Socket } from "node:net";
import { type Clock, systemClock } from "@redrive/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTargetPolicy } from "./address-guard.ts";
import { Connector, type ConnectorParts, createTlsSessions } from "./connector.ts";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import {
  type Behavior,
  flood,
  type HostileServer,
  hostileServer,
} from "./hostile-server.testing.ts";
import { complete, head } from "./hostile-table.testing.ts";
import { LOOKUP_DEADLINE_MS, type Resolver } from "./lookup.ts";
import { MAX_READ_BODY } from "./response.ts";

const PUBLIC = createTargetPolicy();
const LOOPBACK = createTargetPolicy({ mode: "loopback" });

const answering =
  (...addresses: readonly string[]): Resolver =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

const failing =
  (code: string): Resolver =>
  async () => {
    throw Object.assign(new Error("getaddrinfo"), { code });
  };

/** Five seconds pass in a tenth of a second. */
const fastClock: Clock = {
  ...systemClock,
  alarm: (ms, fn, background) => systemClock.alarm(ms / 50, fn, background),
};

let counting: HostileServer;
beforeAll(async () => {
  counting = await hostileServer(complete(200));
});
afterAll(() => counting.close());

/** One attempt to a name, with its own deliverer. */
async function attempt(resolve: Resolver, targets = PUBLIC, clock = systemClock) {
  const deliverer = testDeliverer({ targets, resolve, clock });
  const before = counting.sockets.length;
  const result = await deliverer.deliver(requestTo(counting.url("/", "a.example")), AMPLE);
  await deliverer.close();
  return { result, hits: counting.sockets.length - before };
}

describe("a name that resolves to a forbidden address", () => {
  it.each([
    [83, "this machine", ["127.0.0.1"]],
    [84, "this machine over IPv6", ["::1"]],
    [85, "a private address in disguise", ["::ffff:10.0.0.1"]],
    [86, "metadata, by whatever chain of names", ["169.254.169.254"]],
    [87, "a public and a private one", ["93.184.216.34", "127.0.0.1"]],
    [
      87,
      "a private one behind a thousand public ones",
      [...new Array<string>(1000).fill("8.8.8.8"), "127.0.0.1"],
    ],
  ])("is denied without a packet: row %i, %s", async (_row, _what, addresses) => {
    const { result, hits } = await attempt(answering(...addresses));
    expect([brief(result), hits]).toEqual(["fault target-denied", 0]);
    expect(result.errorMessage).toContain("a.example");
    for (const address of addresses) expect(result.errorMessage).not.toContain(address);
  });

  it("is denied as soon as it is rebound, at every attempt (rows 88, 89)", async () => {
    const answers = ["127.0.0.1", "10.0.0.1", "169.254.169.254"];
    const deliverer = testDeliverer({
      resolve: async () => [{ address: answers.shift() ?? "10.0.0.2", family: 4 }],
    });
    const server = await hostileServer(complete(200, "connection: close"));
    const url = server.url("/", "rebinding.example");
    const results: string[] = [];
    for (let n = 0; n < 4; n++) results.push(brief(await deliverer.deliver(requestTo(url), AMPLE)));
    expect(results).toEqual(["success 200", ...new Array<string>(3).fill("fault target-denied")]);
    expect(server.sockets.length).toBe(1);
    await deliverer.close();
    await server.close();
  });

  it("is looked up once, and the connection uses that result", async () => {
    let asked = 0;
    const deliverer = testDeliverer({
      resolve: async () => {
        asked++;
        return [{ address: asked === 1 ? "127.0.0.1" : "10.0.0.1", family: 4 }];
      },
    });
    const result = await deliverer.deliver(requestTo(counting.url("/", "a.example")), AMPLE);
    expect([brief(result), asked]).toEqual(["success 200", 1]);
    await deliverer.close();
  });
});

describe("literal addresses, which Node does not look up", () => {
  it.each([
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
  ])("%s is denied without a packet", async (host) => {
    const deliverer = testDeliverer({ targets: PUBLIC });
    const before = counting.sockets.length;
    const result = await deliverer.deliver(requestTo(counting.url("/", host)), AMPLE);
    expect([brief(result), counting.sockets.length - before]).toEqual(["fault target-denied", 0]);
    await deliverer.close();
  });
});

describe("the connector alone", () => {
  const open = (tools: Partial<ConnectorParts>, hostname: string) => {
    const connector = new Connector({
      clock: systemClock,
      policy: () => LOOPBACK,
      resolve: answering("127.0.0.1"),
      sessions: createTlsSessions(),
      ...tools,
    });
    const options = { hostname, protocol: "http:", port: String(counting.port) };
    return new Promise<Error | Socket>((done) => {
      connector.connect(options, (error, socket) => done(error ?? (socket as Socket)));
    });
  };

  it.each(["127.0.0.1", "::1", "localhost", "a.internal"])(
    "denies %s by itself",
    async (hostname) => {
      const before = counting.sockets.length;
      expect(await open({ policy: () => PUBLIC }, hostname)).toMatchObject({
        name: "TargetDenied",
      });
      expect(counting.sockets.length).toBe(before);
    },
  );

  it("checks the connected address even if all earlier checks passed", async () => {
    // Name, lookup, socket: the third check runs after the connection is open.
    const policies = [LOOPBACK, LOOPBACK, PUBLIC];
    const policy = () => policies.shift() ?? PUBLIC;
    const before = counting.requests.length;
    expect(await open({ policy }, "a.example")).toMatchObject({ name: "TargetDenied" });
    expect([policies.length, counting.requests.length]).toEqual([0, before]);
  });
});

describe("lookups (row 38 of hostile targets, row 90 of forbidden targets)", () => {
  const hanging: Resolver = () => new Promise(() => {});
  it.each([
    ["no such name", failing("ENOTFOUND"), "ENOTFOUND"],
    ["a failing server", failing("ESERVFAIL"), "ESERVFAIL"],
    ["a busy server", failing("EAI_AGAIN"), "EAI_AGAIN"],
    ["an empty answer", answering(), "EMPTY_ANSWER"],
    ["an answer that never comes", hanging, "LOOKUP_TIMEOUT"],
  ])("%s is a retryable failure, with no byte sent", async (_what, resolve, code) => {
    const { result } = await attempt(resolve, PUBLIC, fastClock);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "dns", sent: false });
    expect(result.errorMessage).toContain(code);
  });

  it("end at the connect timeout if that comes first", async () => {
    const deliverer = testDeliverer({ resolve: hanging });
    const options = { ...AMPLE, connectTimeoutMs: 100 };
    const result = await deliverer.deliver(requestTo("http://a.example/"), options);
    expect(brief(result)).toBe("error dns");
    expect(result.durationMs).toBeLessThan(LOOKUP_DEADLINE_MS);
    await deliverer.close();
  });

  it("try at most eight addresses", async () => {
    // Nothing listens on the others: each refuses at once.
    const others = Array.from({ length: 1000 }, (_, n) => `127.9.${n >> 8}.${n & 255}`);
    const eighth = [...others.slice(0, 7), "127.0.0.1", ...others.slice(7)];
    const ninth = [...others.slice(0, 8), "127.0.0.1", ...others.slice(8)];
    expect(brief((await attempt(answering(...eighth), LOOPBACK)).result)).toBe("success 200");
    const { result } = await attempt(answering(...ninth), LOOPBACK);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "connect", sent: false });
    expect(result.errorMessage).not.toMatch(/127\./);
  });
});

describe("the environment", () => {
  it("does not set a proxy (row 100)", async () => {
    process.env["HTTP_PROXY"] = counting.url();
    process.env["NODE_USE_ENV_PROXY"] = "1";
    try {
      const server = await hostileServer(complete(200));
      const before = counting.sockets.length;
      const deliverer = testDeliverer();
      expect(brief(await deliverer.deliver(requestTo(server.url()), AMPLE))).toBe("success 200");
      expect([server.sockets.length, counting.sockets.length - before]).toEqual([1, 0]);
      await deliverer.close();
      await server.close();
    } finally {
      delete process.env["HTTP_PROXY"];
      delete process.env["NODE_USE_ENV_PROXY"];
    }
  });

  it("may resolve any name to this service, which is denied (row 96)", async () => {
    const own = [{ address: "127.0.0.1", port: counting.port }];
    const { result, hits } = await attempt(
      answering("127.0.0.1"),
      createTargetPolicy({ mode: "loopback", own }),
    );
    expect([brief(result), hits]).toEqual(["fault target-denied", 0]);
  });
});

describe("TLS sessions", () => {
  it("are kept by target, the latest of each", () => {
    const sessions = createTlsSessions();
    sessions.set("a", Buffer.from("1"));
    sessions.set("a", Buffer.from("2"));
    expect([sessions.get("a")?.toString(), sessions.get("b")]).toEqual(["2", undefined]);
  });

  it("are at most 256: the oldest is evicted", () => {
    const sessions = createTlsSessions();
    for (let n = 0; n < 256; n++) sessions.set(String(n), Buffer.of(0));
    sessions.set("0", Buffer.of(1));
    sessions.set("one more", Buffer.of(0));
    expect([sessions.get("0"), sessions.get("1")]).toEqual([Buffer.of(1), undefined]);
  });
});

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const MIB = 1 << 20;
const CHUNKED = "transfer-encoding: chunked";
/** What the kernel buffers between two sockets of one machine. */
const MAX_SENT = 16 * MIB;

/** None of them is a part of a body, whose length has its own limit. */
const FLOODS: readonly (readonly [does: string, begin: string, part: string, ends: string])[] = [
  ["103", "", head(103, "link: x"), "error protocol"],
  ["100", "", head(100), "error protocol"],
  ["line ends before a response", "", "\r\n", "error protocol"],
  ["an endless status line", "HTTP/1.1 200 ", "x", "error protocol"],
  ["an endless extension of a chunk", `${head(200, CHUNKED)}1;`, "x", "success 200 truncated"],
  ["such an extension after a failure", `${head(503, CHUNKED)}1;`, "x", "status 503 truncated"],
  ["an endless size of a chunk", head(200, CHUNKED), "0", "success 200 truncated"],
  [
    "tiny chunks with extensions",
    head(200, CHUNKED),
    `1;${"x".repeat(999)}\r\ny\r\n`,
    "success 200 truncated",
  ],
];

describe("a target that floods with", () => {
  it.each(FLOODS)("%s is cut off", async (_does, begin, part, ends) => {
    const sent: number[] = [];
    const server = await hostileServer((socket) => {
      socket.write(begin);
      flood(socket, Buffer.from(part.repeat(Math.ceil(65_536 / part.length))));
      socket.on("close", () => sent.push(socket.bytesWritten));
    });
    const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
    expect(brief(result)).toBe(ends);
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
    await server.close();
    expect(sent[0]).toBeLessThan(MAX_SENT);
  });
});

it("informational responses are cut off by their number, long before their length", async () => {
  let sent = 0;
  const server = await hostileServer((socket) => {
    const pump = () => {
      for (let n = 0; n < 100; n++) socket.write(head(103));
      sent += 100;
      if (!socket.destroyed) setImmediate(pump);
    };
    pump();
  });
  const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
  expect(brief(result)).toBe("error protocol");
  await server.close();
  // 512 KiB are more than 20,000.
  expect(sent).toBeLessThan(10_000);
});

it("a connection may receive any number of responses of the length that is read", async () => {
  const server = await hostileServer(longResponse());
  for (let n = 0; n < 20; n++) {
    const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
    // Read to its end, but not all of it is stored.
    expect(brief(result)).toBe("success 200 truncated");
  }
  // undici may open a second one while it ends the first response. Limited to their sum, five were needed.
  expect(server.sockets.length).toBeLessThanOrEqual(2);
  await server.close();
});

it("a response in chunks of one byte is read to the length that is stored", async () => {
  const chunks = "1\r\nx\r\n".repeat(16_384);
  const server = await hostileServer(`${head(200, CHUNKED)}${chunks}0\r\n\r\n`);
  const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
  expect([brief(result), bodyOf(result).length]).toEqual(["success 200", 16_384]);
  await server.close();
});

function longResponse(): string {
  return `${head(200, `content-length: ${MAX_READ_BODY}`)}${"x".repeat(MAX_READ_BODY)}`;
}

describe("informational", () => {
  const deliverer = testDeliverer();
  afterAll(() => deliverer.close());

  const CONTINUE = head(100);
  const FINAL = complete(200);

  async function attempt(behavior: Behavior, more: Parameters<typeof requestTo>[1] = {}) {
    const server = await hostileServer(behavior);
    const result = await deliverer.deliver(requestTo(server.url("/hostile"), more), AMPLE);
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
    await server.close();
    return result;
  }

  /** Sends the text one byte at a time, each in its own packet. */
  const byteByByte =
    (text: string): Behavior =>
    async (socket) => {
      for (const byte of text) {
        socket.write(byte, "latin1");
        await new Promise((resolve) => setImmediate(resolve));
      }
    };

  describe("an unrequested informational response", () => {
    it.each<[string, Behavior]>([
      ["100", CONTINUE + FINAL],
      ["100 with headers", head(100, "x-a: b") + FINAL],
      ["several", CONTINUE + head(103, "link: <a>") + CONTINUE + head(102) + FINAL],
      ["100 in single bytes", byteByByte(CONTINUE + CONTINUE + FINAL)],
    ])("is ignored: %s", async (_what, behavior) => {
      for (const body of [null, Buffer.from("x")]) {
        const result = await attempt(behavior, { body });
        expect(brief(result)).toBe("success 200");
      }
    });

    it("in the body is not touched", async () => {
      const text = `${CONTINUE}x`;
      const answer = (socket: Parameters<Exclude<Behavior, string | Buffer>>[0]) => {
        socket.write(head(200, `content-length: ${text.length}`));
        setImmediate(() => socket.write(text));
      };
      expect(bodyOf(await attempt(answer))).toBe(text);
    });

    it("does not change a final status that begins like it", async () => {
      expect(brief(await attempt(CONTINUE + complete(503)))).toBe("status 503");
    });
  });
});
