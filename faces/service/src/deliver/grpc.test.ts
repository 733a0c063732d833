/**
 * Tests of gRPC calls to a real server of grpc-js, plain and with TLS. Tests of gRPC messages: a
 * message is read as it was written, whatever its parts.
 */
import { Readable } from "node:stream";
import {
  classifyOutcome,
  GRPC_CODES,
  type GrpcCode,
  grpcOutcome,
  resolvePolicy,
} from "@redrive/core";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { makeCertificate } from "./certificate.testing.ts";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { framedMessage, MAX_RESPONSE_BYTES, MessageReader, messagePrefix } from "./grpc.ts";
import { echo, failing, grpcTestServer, type Handler } from "./grpc-server.testing.ts";
import { parseSigningSecret, signWebhook, verifyWebhook } from "./signing.ts";

const authority = makeCertificate({ name: "Test Authority" });
const certificate = makeCertificate({ name: "target.example", issuer: authority });
const hex = (bytes: number) => "ab".repeat(bytes);
const deliverer = testDeliverer({ ca: authority.cert, hex });

/** Responds with the code in the metadata `x-code`. */
const coded: Handler = (call, respond) => {
  const code = Number(call.metadata.get("x-code")[0]);
  if (code === 0) respond(null, Buffer.alloc(0));
  else failing(code)(call, respond);
};

const server = await grpcTestServer({
  echo,
  coded,
  large: (_call, respond) => respond(null, Buffer.alloc(3 << 20, "x")),
  tooLarge: (_call, respond) => respond(null, Buffer.alloc(5 << 20, "x")),
  silent: () => {},
  pushed: failing(14, "later", { "grpc-retry-pushback-ms": "1500" }),
  forbidden: failing(14, "never", { "grpc-retry-pushback-ms": "-1" }),
  garbled: failing(14, "never", { "grpc-retry-pushback-ms": "soon" }),
  telling: (call, respond) =>
    failing(7, `no: ${call.metadata.get("authorization")[0]} ü%`)(call, respond),
});
const secure = await grpcTestServer({ echo }, certificate);
afterAll(async () => {
  await deliverer.close();
  server.close();
  secure.close();
});

const GRPC = { headers: {} };
const deliver = (method: string, more = {}, options = AMPLE) =>
  deliverer.deliver(requestTo(server.url(method), { ...GRPC, ...more }), options);

describe("a unary call", () => {
  it("sends the bytes and stores the message of the response without its prefix", async () => {
    const body = Buffer.from([8, 150, 1, 0, 255]);
    const result = await deliver("echo", { body });
    expect(brief(result)).toBe("success 0");
    expect(result.responseBody).toEqual(body);
    expect(server.calls.at(-1)?.request).toEqual(body);
    expect(result.responseHeaders).toMatchObject({ "grpc-status": "0" });
    expect(result.phases.firstByteMs).not.toBeNull();
  });

  it("without a body sends an empty message", async () => {
    const result = await deliver("echo", { body: null });
    expect([brief(result), bodyOf(result)]).toEqual(["success 0", ""]);
  });

  it("carries the task's metadata and the service's own", async () => {
    const headers = {
      Authorization: "Bearer x",
      "X-Bytes-Bin": "AP8",
      "content-type": "application/grpc",
      "user-agent": "shop/1",
      "accept-encoding": "gzip",
    };
    const idempotencyKey = "order-17";
    await deliver("echo", { headers, idempotencyKey, attemptNumber: 3, requestId: "r-1" });
    const { metadata } = server.calls.at(-1)!;
    expect(metadata.getMap()).toMatchObject({
      authorization: "Bearer x",
      "x-bytes-bin": Buffer.from([0, 255]),
      "user-agent": "shop/1",
      "idempotency-key": "order-17",
      "redrive-task-id": "0190b4c8-0000-7000-8000-000000000001",
      "redrive-attempt": "3",
      "redrive-hop": "1",
      "grpc-previous-rpc-attempts": "2",
      traceparent: `00-0190b4c8000070008000000000000001-${hex(8)}-01`,
      "x-request-id": "r-1",
    });
  });

  it("tells the target its deadline", async () => {
    const startedAt = Date.now();
    await deliver("echo", {}, { attemptTimeoutMs: 7000, connectTimeoutMs: 1000 });
    const deadline = server.calls.at(-1)?.getDeadline();
    expect(Number(deadline) - startedAt).toBeGreaterThan(5000);
    expect(Number(deadline) - Date.now()).toBeLessThanOrEqual(7000);
  });

  it("carries the signature of the message", async () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const now = Date.now();
    const body = Buffer.from("message");
    const signature = signWebhook([parseSigningSecret(secret)], { id: "task", now, body });
    await deliver("echo", { body, signature }, { ...AMPLE, now });
    const headers = server.calls.at(-1)!.metadata.getMap() as Record<string, string>;
    expect(verifyWebhook(secret, { headers, body }, now)).toMatchObject({ ok: true });
  });

  it("over TLS verifies the name of the target", async () => {
    const url = secure.url("echo", "target.example");
    const result = await deliverer.deliver(requestTo(url, GRPC), AMPLE);
    expect([brief(result), bodyOf(result)]).toEqual(["success 0", "hello"]);
    expect(result.phases.tlsMs).not.toBeNull();
    const other = secure.url("echo", "other.example");
    expect(brief(await deliverer.deliver(requestTo(other, GRPC), AMPLE))).toBe("error tls");
  });

  it("streams a long body", async () => {
    const chunk = Buffer.alloc(65_536, "y");
    const stream = { stream: Readable.from(Array(48).fill(chunk)), length: 48 * chunk.length };
    const result = await deliver("echo", { body: null, stream });
    expect(brief(result)).toBe("success 0 truncated");
    expect(server.calls.at(-1)?.request.length).toBe(48 * chunk.length);
  });
});

describe("the code of a response", () => {
  const policies = {
    default: resolvePolicy({}),
    other: resolvePolicy({ retryableGrpcCodes: ["CANCELLED", "ABORTED", "DEADLINE_EXCEEDED"] }),
  };

  it.each(GRPC_CODES.map((code, number) => [code, number] as const))(
    "%s is classified as in core",
    async (code, number) => {
      const result = await deliver("coded", { headers: { "x-code": String(number) } });
      expect(result.status).toBe(number);
      for (const policy of Object.values(policies)) {
        expect(classifyOutcome(policy, result.outcome)).toBe(verdictInCore(code, policy));
      }
    },
  );

  /** Core takes CANCELLED as the caller's own abort, which it is not here. Neither is retried by default. */
  function verdictInCore(code: GrpcCode, policy: (typeof policies)["default"]) {
    const outcome = code === "CANCELLED" ? ({ kind: "grpc", code } as const) : grpcOutcome(code);
    return classifyOutcome(policy, outcome);
  }

  it.each([
    ["pushed", { kind: "grpc", code: "UNAVAILABLE", retryAfterMs: 1500 }, 1500],
    ["forbidden", { kind: "grpc", code: "UNAVAILABLE", refused: true }, null],
    ["garbled", { kind: "grpc", code: "UNAVAILABLE", refused: true }, null],
  ])("is joined by its pushback (%s)", async (method, outcome, retryAfterMs) => {
    expect(await deliver(method)).toMatchObject({ outcome, retryAfterMs });
  });

  it("comes with a message, in which secrets are masked", async () => {
    const result = await deliver("telling", { headers: { authorization: "Bearer 1%2 secret" } });
    expect(result.responseHeaders?.["grpc-message"]).toBe("no: *** ü%");
    expect(result.errorMessage).toBeNull();
  });

  it("UNIMPLEMENTED is that of an unknown method", async () => {
    expect(brief(await deliver("missing"))).toBe("grpc 12");
  });
});

describe("limits of a call", () => {
  it("a response above 128 KiB is read to its end, because its code is there", async () => {
    const result = await deliver("large");
    expect(brief(result)).toBe("success 0 truncated");
    expect(result.responseBody?.length).toBe(16_384);
  });

  it("a response above 4 MiB ends the task", async () => {
    const result = await deliver("tooLarge");
    expect(result.outcome).toEqual({
      kind: "grpc",
      code: "RESOURCE_EXHAUSTED",
      verdict: "terminal",
    });
    expect(result.errorMessage).toBe("the target's response is longer than 4 MiB");
    expect(result.truncated).toBe(true);
  });

  it("a target that does not respond in time is a timeout, and it learns of the cancellation", async () => {
    const options = { attemptTimeoutMs: 300, connectTimeoutMs: 300 };
    const result = await deliver("silent", {}, options);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "timeout", sent: true });
    const silent = server.calls.at(-1);
    await expect.poll(() => silent?.cancelled).toBe(true);
    expect(brief(await deliver("echo"))).toBe("success 0");
  });

  it("an abort ends the call, and a call that may not start sends nothing", async () => {
    const abort = new AbortController();
    const running = deliver("silent", {}, { ...AMPLE, signal: abort.signal });
    await expect.poll(() => server.calls.at(-1)?.getPath()).toBe("/test.Service/silent");
    abort.abort();
    expect(brief(await running)).toBe("aborted");
    const before = server.calls.length;
    expect(brief(await deliver("echo", {}, { ...AMPLE, mayStart: () => false }))).toBe("aborted");
    expect(server.calls.length).toBe(before);
  });

  it("a target that is not there is a failed connection, of which nothing was sent", async () => {
    const closed = await grpcTestServer({ echo });
    closed.close();
    const result = await deliverer.deliver(requestTo(closed.url("echo"), GRPC), AMPLE);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "connect", sent: false });
  });
});

/** Cuts bytes at the given places. */
function parts(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b)];
  return places.map((from, index) => bytes.subarray(from, places[index + 1] ?? bytes.length));
}

describe("a message", () => {
  it("is read without its prefix, in any parts, with anything after it", () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(bytes, bytes, fc.array(fc.nat(700), { maxLength: 6 }), (body, rest, cuts) => {
        const reader = new MessageReader();
        for (const part of parts(Buffer.concat([framedMessage(body), rest]), cuts)) {
          expect(reader.add(part)).toBe(true);
        }
        expect(Buffer.from(reader.body?.stored([], true) ?? [])).toEqual(Buffer.from(body));
        expect(reader.isComplete()).toBe(true);
      }),
    );
  });

  it("that breaks off is not complete", () => {
    const reader = new MessageReader();
    expect(reader.isComplete()).toBe(true);
    reader.add(Buffer.from([0, 0]));
    expect(reader.isComplete()).toBe(false);
    reader.add(Buffer.from([0, 0, 2, 7]));
    expect(reader.isComplete()).toBe(false);
    reader.add(Buffer.from([8]));
    expect(reader.isComplete()).toBe(true);
  });

  it("is refused above 4 MiB as soon as its length is known", () => {
    const limit = MAX_RESPONSE_BYTES - 5;
    expect(new MessageReader().add(messagePrefix(limit))).toBe(true);
    expect(new MessageReader().add(messagePrefix(limit + 1))).toBe(false);
  });
});
