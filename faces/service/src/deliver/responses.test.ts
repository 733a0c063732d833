/** Rows 20 to 32, 35 and 37 of the table of hostile targets: the results of valid responses. */
import { once } from "node:events";
import { classifyOutcome, resolvePolicy } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, hostileServer } from "./hostile-server.testing.ts";
import { complete, response } from "./hostile-table.testing.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const NOW = Date.UTC(2026, 9, 21, 7, 28, 0);
const DATE = "date: Wed, 21 Oct 2026 07:28:00 GMT";

/** One attempt against one response. */
async function attempt(behavior: Behavior, more: Parameters<typeof requestTo>[1] = {}) {
  const server = await hostileServer(behavior);
  const result = await deliverer.deliver(requestTo(server.url(), more), { ...AMPLE, now: NOW });
  await server.close();
  return { result, requests: server.requests };
}

describe("statuses", () => {
  const policy = resolvePolicy({});
  it.each([
    [[400, 401, 403, 404, 405, 410, 413, 422], "terminal", 23],
    [[408, 425, 500, 502, 503, 504], "transient", 24],
    [[429], "throttled", 24],
    [[501, 505, 511], "terminal", 25],
  ] as const)("%j are %s by default (row %i)", async (statuses, verdict, _row) => {
    for (const status of statuses) {
      const { result } = await attempt(complete(status));
      expect(result.outcome).toEqual({ kind: "status", status });
      expect(classifyOutcome(policy, result.outcome)).toBe(verdict);
    }
  });

  it.each([301, 302, 303, 307, 308])(
    "%i is not followed, and logged without its query (row 21)",
    async (status) => {
      const elsewhere = await hostileServer(complete(200));
      const location = `location: ${elsewhere.url("/next?token=1")}`;
      const { result, requests } = await attempt(complete(status, location));
      expect(result.outcome).toEqual({ kind: "status", status });
      expect(result.responseHeaders?.["location"]).toBe(elsewhere.url("/next"));
      expect([requests.length, elsewhere.sockets.length]).toEqual([1, 0]);
      await elsewhere.close();
    },
  );

  it("are final if the target forbids a retry", async () => {
    const { result } = await attempt(complete(503, "x-should-retry: false"));
    expect(result.outcome).toEqual({ kind: "status", status: 503, refused: true });
  });
});

describe("Retry-After", () => {
  const hint = async (status: number, ...lines: string[]) =>
    (await attempt(complete(status, DATE, ...lines))).result;

  it.each([
    ["0", 0],
    ["5", 5000],
    ["99999999999999999999", 1_000_000_000_000_000],
    ["-1", null],
    ["1.5", null],
    ["1e9", null],
    ["0x10", null],
    ["120, 30", null],
    ["", null],
    ["Infinity", null],
  ])("%j asks for %s ms (row 26)", async (text, expected) => {
    expect((await hint(503, `retry-after: ${text}`)).retryAfterMs).toBe(expected);
  });

  it.each([
    ["Wed, 21 Oct 2026 07:30:00 GMT", 120_000],
    ["Wed, 21 Oct 2015 07:28:00 GMT", 0],
    ["2099-01-01", null],
    ["tomorrow", null],
  ])("%j asks for %s ms (row 27)", async (text, expected) => {
    expect((await hint(429, `retry-after: ${text}`)).retryAfterMs).toBe(expected);
  });

  it("in the year 9999 is a long wait, which core caps (row 27)", async () => {
    const { retryAfterMs } = await hint(503, "retry-after: Fri, 31 Dec 9999 23:59:59 GMT");
    expect(retryAfterMs).toBeGreaterThan(2 ** 31);
  });

  it("is relative to the target's own clock, however wrong", async () => {
    const behind = "date: Wed, 21 Oct 2020 07:28:00 GMT";
    const at = "retry-after: Wed, 21 Oct 2020 07:28:10 GMT";
    const { result } = await attempt(complete(503, behind, at));
    expect(result.retryAfterMs).toBe(10_000);
  });

  it("is ignored on a success and where core does not retry (row 28)", async () => {
    expect((await hint(200, "retry-after: 5")).retryAfterMs).toBeNull();
    for (const status of [301, 400]) {
      const { outcome } = await hint(status, "retry-after: 5");
      expect(classifyOutcome(resolvePolicy({}), outcome)).toBe("terminal");
    }
  });

  it("is ignored if it is given twice (row 29)", async () => {
    expect((await hint(503, "retry-after: 1", "retry-after: 2")).retryAfterMs).toBeNull();
  });
});

describe("the stored part of a response", () => {
  it("contains no cookie, and the next request sends none (row 30)", async () => {
    const server = await hostileServer(complete(200, "set-cookie: id=1"));
    const first = await deliverer.deliver(requestTo(server.url()), AMPLE);
    await deliverer.deliver(requestTo(server.url()), AMPLE);
    expect(first.responseHeaders?.["set-cookie"]).toBe("***");
    expect(server.requests[1]?.head).not.toMatch(/cookie/i);
    await server.close();
  });

  it.each(["<script>alert(1)</script>", "\u0000\u00ff\u00fe\u0080", "\u001b[31m"])(
    "is the received bytes: %j (row 31)",
    async (body) => {
      const { result } = await attempt(response(500, body));
      expect([bodyOf(result), result.truncated]).toEqual([body, false]);
    },
  );

  it("is the first 16 KiB of a megabyte (row 31)", async () => {
    const { result } = await attempt(response(500, "x".repeat(1_000_000)));
    expect([bodyOf(result).length, brief(result)]).toEqual([16_384, "status 500 truncated"]);
  });

  it("contains none of our secrets (row 32)", async () => {
    const secret = "Bearer very-s3cret-token";
    const echo: Behavior = (socket, { head }) => void socket.write(response(401, head), "latin1");
    const headers = { authorization: secret };
    const { result } = await attempt(echo, { headers });
    expect(bodyOf(result)).toContain("authorization: ***");
    expect(bodyOf(result)).not.toContain("s3cret");
    const short = { "x-env": "prod", "x-api-key": "k3y!" };
    const echoed = bodyOf((await attempt(echo, { headers: short })).result);
    expect(echoed).toContain("x-env: prod");
    expect(echoed).toContain("x-api-key: ***");
    const more = await attempt(echo, { headers: { accept: "an0ther-one" }, secrets: ["an0ther"] });
    expect(bodyOf(more.result)).toContain("accept: ***-one");
  });
});

describe("connections", () => {
  it("carry no second response over to the next request (row 20)", async () => {
    const twice = response(200, "first") + response(200, "second");
    const server = await hostileServer(twice);
    const first = await deliverer.deliver(requestTo(server.url()), AMPLE);
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([bodyOf(first), bodyOf(next)]).toEqual(["first", "honest"]);
    await server.close();
  });

  it("carry no unsolicited response to the next request (row 20)", async () => {
    const server = await hostileServer(response(200, "first"));
    const first = await deliverer.deliver(requestTo(server.url()), AMPLE);
    const [socket] = server.sockets;
    socket?.write(response(200, "unsolicited"));
    await once(socket!, "close");
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([bodyOf(first), bodyOf(next)]).toEqual(["first", "honest"]);
    await server.close();
  });

  it("are reopened if the target closed them in between (row 35)", async () => {
    const server = await hostileServer(response(200, "first"));
    await deliverer.deliver(requestTo(server.url()), AMPLE);
    const [socket] = server.sockets;
    socket?.end();
    await once(socket!, "close");
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([brief(next), server.requests.length, server.sockets.length]).toEqual([
      "success 200",
      2,
      2,
    ]);
    await server.close();
  });

  it("carry no late response to the next request (row 37)", async () => {
    const server = await hostileServer(() => undefined);
    const late = await deliverer.deliver(requestTo(server.url()), SHORT);
    server.sockets[0]?.write(response(200, "late"));
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([brief(late), late.outcome, bodyOf(next)]).toEqual([
      "error timeout",
      { kind: "error", errorClass: "timeout", sent: true },
      "honest",
    ]);
    await server.close();
  });
});
