/** Tests of delivery to hostile targets, through real sockets. */
import { systemClock } from "@redrive/core";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, type HostileServer, hostileServer } from "./hostile-server.testing.ts";
import { complete, response } from "./hostile-table.testing.ts";
import { parseSigningSecret, signWebhook, verifyWebhook } from "./signing.ts";

const hex = (bytes: number) => "ab".repeat(bytes);
const deliverer = testDeliverer({ hex });
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

function headersOf(head: string): Record<string, string> {
  const lines = head.split("\r\n").slice(1);
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
}

describe("what an attempt sends", () => {
  it("is the task's request with the service's headers added", async () => {
    const server = await serve(complete(200));
    const headers = { "Content-Type": "text/plain", Authorization: "Bearer x" };
    const body = Buffer.from([0, 1, 2, 255]);
    await deliverer.deliver(
      requestTo(server.url("/a?b=c#d"), { headers, body, attemptNumber: 3 }),
      AMPLE,
    );
    const [request] = server.requests;
    expect([request?.method, request?.path, request?.body]).toEqual(["POST", "/a?b=c", body]);
    expect(headersOf(request?.head ?? "")).toEqual({
      host: `127.0.0.1:${server.port}`,
      connection: "keep-alive",
      "Content-Type": "text/plain",
      Authorization: "Bearer x",
      "idempotency-key": "0190b4c8-0000-7000-8000-000000000001",
      "redrive-task-id": "0190b4c8-0000-7000-8000-000000000001",
      "redrive-attempt": "3",
      "redrive-remaining-ms": String(AMPLE.attemptTimeoutMs),
      "redrive-hop": "1",
      traceparent: `00-0190b4c8000070008000000000000001-${hex(8)}-01`,
      "x-request-id": "0190b4c8-0000-7000-8000-000000000001",
      "accept-encoding": "identity",
      "user-agent": "Redrive",
      "content-length": "4",
    });
  });

  it("prefers the caller's values, and omits headers of the connection", async () => {
    const server = await serve(complete(200));
    const headers = {
      "User-Agent": "mine",
      "Accept-Encoding": "gzip",
      TE: "trailers",
      "Proxy-Authorization": "x",
      Host: "forged.example",
      "Redrive-Task-Id": "forged",
      "Webhook-Id": "forged",
      "redrive-hop": "2",
    };
    const given = { idempotencyKey: "key-1", requestId: "r-1" };
    await deliverer.deliver(requestTo(server.url(), { headers, ...given }), AMPLE);
    const sent = headersOf(server.requests[0]?.head ?? "");
    expect(sent).toMatchObject({
      "User-Agent": "mine",
      "accept-encoding": "identity",
      "idempotency-key": "key-1",
      "x-request-id": "r-1",
      "redrive-hop": "3",
    });
    expect(server.requests[0]?.head).not.toMatch(/forged|trailers|proxy-auth|gzip/i);
  });

  it("keeps the trace, the request id and the key in the task's headers", async () => {
    const server = await serve(complete(200));
    const traceparent = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
    const headers = { Traceparent: traceparent, "X-Request-Id": "mine-7", "Idempotency-Key": "k" };
    await deliverer.deliver(requestTo(server.url(), { headers }), AMPLE);
    const broken = { headers: { ...headers, Traceparent: "00-1-2-01" }, idempotencyKey: "field" };
    await deliverer.deliver(requestTo(server.url(), broken), AMPLE);
    const [sent, repaired] = server.requests.map(({ head }) => headersOf(head));
    expect(sent).toMatchObject({
      traceparent: `00-${"1".repeat(32)}-${hex(8)}-01`,
      "x-request-id": "mine-7",
      "idempotency-key": "k",
    });
    expect(repaired).toMatchObject({
      traceparent: `00-0190b4c8000070008000000000000001-${hex(8)}-01`,
      "idempotency-key": "field",
    });
    expect(
      server.requests[0]?.head.match(/traceparent|x-request-id|idempotency-key/gi),
    ).toHaveLength(3);
  });

  it("carries the signatures of its body", async () => {
    const server = await serve(complete(200));
    const secrets = [1, 2].map((n) => `whsec_${Buffer.alloc(32, n).toString("base64")}`);
    const now = 1_700_000_000_000;
    const request = requestTo(server.url());
    const message = { id: request.taskId, now, body: request.body ?? new Uint8Array(0) };
    const signature = signWebhook(secrets.map(parseSigningSecret), message);
    await deliverer.deliver({ ...request, signature }, { ...AMPLE, now });
    const { head = "", body = "" } = server.requests[0] ?? {};
    for (const secret of secrets) {
      const verdict = verifyWebhook(secret, { headers: headersOf(head), body }, now);
      expect(verdict).toEqual({ ok: true, id: "0190b4c8-0000-7000-8000-000000000001" });
    }
  });

  it.each(["GET", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "QUERY"])(
    "may be a %s without a body",
    async (method) => {
      const server = await serve(complete(200));
      const result = await deliverer.deliver(
        requestTo(server.url(), { method, body: null }),
        AMPLE,
      );
      expect([brief(result), server.requests[0]?.method]).toEqual(["success 200", method]);
    },
  );
});

describe("the result of an attempt", () => {
  it("has the response and the duration of each phase", async () => {
    const server = await serve(
      response(201, "made", "x-request-id: t-1", "content-type: text/plain"),
    );
    const url = server.url("/", "name.example");
    const result = await deliverer.deliver(requestTo(url), AMPLE);
    expect(result).toMatchObject({
      outcome: { kind: "success", status: 201 },
      status: 201,
      errorClass: null,
      errorMessage: null,
      responseHeaders: {
        "x-request-id": "t-1",
        "content-type": "text/plain",
        "content-length": "4",
      },
      truncated: false,
      retryAfterMs: null,
      targetRequestId: "t-1",
    });
    expect(bodyOf(result)).toBe("made");
    const { dnsMs, connectMs, tlsMs, firstByteMs } = result.phases;
    for (const ms of [dnsMs, connectMs, firstByteMs]) expect(ms).toBeGreaterThanOrEqual(0);
    expect(tlsMs).toBeNull();
    expect(Number.isInteger(result.durationMs)).toBe(true);
  });

  it("has no lookup and no connect phase on a reused connection", async () => {
    const server = await serve(complete(200));
    await deliverer.deliver(requestTo(server.url()), AMPLE);
    // undici checks an idle connection for one tick before it uses it again.
    await systemClock.sleep(1);
    const { phases } = await deliverer.deliver(requestTo(server.url()), AMPLE);
    expect(phases).toMatchObject({ dnsMs: null, connectMs: null, tlsMs: null });
    expect(server.sockets.length).toBe(1);
  });

  it("reports a refused connection without its address", async () => {
    const server = await hostileServer(complete(200));
    const url = server.url();
    await server.close();
    const result = await deliverer.deliver(requestTo(url), AMPLE);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "connect", sent: false });
    expect(result.errorMessage).toBe("no connection to the target (ECONNREFUSED)");
  });

  it.each([
    ["http://10.0.0.1/", "fault target-denied"],
    ["ftp://a.example/", "fault invalid-request"],
  ])("is a fault for %s, at every attempt", async (url, expected) => {
    for (let n = 0; n < 2; n++) {
      expect(brief(await deliverer.deliver(requestTo(url), AMPLE))).toBe(expected);
    }
  });

  it("is a fault for headers that cannot be sent", async () => {
    const server = await serve(complete(200));
    const headers = { "x-evil": "a\r\nb: c" };
    const result = await deliverer.deliver(requestTo(server.url(), { headers }), AMPLE);
    expect([brief(result), server.requests.length]).toEqual(["fault invalid-request", 0]);
  });

  it.each([
    { attemptTimeoutMs: 0 },
    { attemptTimeoutMs: Number.NaN },
    { connectTimeoutMs: 60_001 },
  ])("is an exception for incorrect use only: %j", (wrong) => {
    expect(() => deliverer.deliver(requestTo("http://a.example/"), { ...AMPLE, ...wrong })).toThrow(
      /must be 1 to/,
    );
  });
});
