/**
 * Tests of task input: what is rejected, and with which messages. Tests of tasks with a gRPC
 * target: what is refused, and with which messages. Tests of tasks whose target is a broker: what
 * is refused, and with which messages.
 */

import type { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { BrokerPlace } from "../deliver/target.ts";
import { withPlainHeaders } from "../model/task.ts";
import {
  assertBrokerInput,
  assertGrpcInput,
  type BrokerInput,
  createTask,
  type GrpcInput,
  MAX_BROKER_MESSAGE,
  type TaskInput,
} from "./task-input.ts";
import { fingerprintParts } from "./task-intake.ts";

const NOW = 1_800_000_000_000;
const url = "https://example.com/hook?a=1";

function make(input: Partial<TaskInput>) {
  return createTask(withPlainHeaders({ targetUrl: url, ...input }), {
    tenantId: "acme",
    taskId: "task-1",
    now: NOW,
    policyId: "background",
    policyVersion: 1,
    checkTarget: (text) =>
      text.startsWith("https:")
        ? {
            ok: true,
            url: text,
            origin: new URL(text).origin,
            path: "/hook",
            grpc: undefined,
            broker: undefined,
          }
        : { ok: false, kind: "malformed", message: "targetUrl must begin with https://" },
  });
}

const text = (body: Uint8Array | null) => (body === null ? null : new TextDecoder().decode(body));

describe("a task to create", () => {
  it("needs a target and nothing else", () => {
    expect(make({})).toMatchObject({
      destination: "https://example.com",
      method: "POST",
      body: null,
      idempotent: true,
      scheduledAt: NOW,
      deadlineAt: null,
      idempotencyKey: null,
    });
  });

  it("copies the body: a buffer that its caller reuses changes no attempt", () => {
    const body = Buffer.from("first");
    const headers = { "x-order": "17" };
    const labels = { team: "shop" };
    const task = make({ body, headers, labels });
    body.fill("x");
    headers["x-order"] = "18";
    labels.team = "other";
    expect(text(task.body)).toBe("first");
    expect(task).toMatchObject({ headers: { "x-order": "17" }, labels: { team: "shop" } });
  });

  it("accepts its body as a string, bytes, Base64 or JSON", () => {
    expect(text(make({ body: "ä" }).body)).toBe("ä");
    expect(make({ body: new Uint8Array([0, 1]) }).body).toEqual(new Uint8Array([0, 1]));
    expect(text(make({ bodyBase64: "YWI=" }).body)).toBe("ab");
    const task = make({ json: { a: null } });
    expect([text(task.body), task.headers["content-type"]]).toEqual([
      '{"a":null}',
      "application/json",
    ]);
    expect(make({ json: 1, headers: { "Content-Type": "x/y" } }).headers).toEqual({
      "Content-Type": "x/y",
    });
  });

  it.each<[string, object]>([
    ["unknown field", { targeturl: url }],
    ["targetUrl must", { targetUrl: "ftp://x" }],
    ["header", { headers: { a: "b\r\nc: d" } }],
    ["header", { headers: { "a b": "c" } }],
    ["bodyBase64 must", { bodyBase64: "not base 64!" }],
    ["bodyRef must", { bodyRef: "../other" }],
    ["bodyRef must", { bodyRef: 7 }],
    ["only one of", { body: "x", bodyRef: "y" }],
    ["only one of", { body: "x", bodyBase64: "YWI=" }],
    ["idempotencyKey must", { idempotencyKey: "" }],
    ["scheduledAt must", { scheduledAt: NOW + 366 * 86_400_000 }],
    ["deadlineAt must", { deadlineAt: NOW - 1 }],
    ["deadlineAt must", { scheduledAt: NOW + 1000, deadlineAt: NOW + 500 }],
    ["callbackUrl must", { callbackUrl: "ftp://x" }],
    ["GET", { method: "GET", body: "x" }],
    ["HEAD", { method: "HEAD", body: "x" }],
    ["policy and policyId must not both be given", { policyId: "read", policy: {} }],
    ["labels must", { labels: { a: 1 } }],
    ["labels must", { labels: new Map([["team", "shop"]]) }],
    ["headers must", { headers: new Date(0) }],
  ])("is refused: %s", (message, fields) => {
    expect(() => make(fields as Partial<TaskInput>)).toThrow(message);
  });

  it("is due now if it was due in the past", () => {
    expect(make({ scheduledAt: NOW - 1000 }).scheduledAt).toBe(NOW);
  });

  it("has a fingerprint that the order of headers does not change", () => {
    const print = (headers: Record<string, string>) => String(fingerprintParts(make({ headers })));
    expect(print({ "x-a": "1", "x-b": "2" })).toBe(print({ "x-b": "2", "x-a": "1" }));
  });

  it("has a fingerprint that trace context does not change and everything else does", () => {
    const print = (input: Partial<TaskInput>) => String(fingerprintParts(make(input)));
    const base = print({ body: "a", headers: { "X-A": "1" } });
    expect(print({ body: "a", headers: { "x-a": "1", traceparent: "00-1", Date: "now" } })).toBe(
      base,
    );
    expect(print({ body: "b", headers: { "X-A": "1" } })).not.toBe(base);
    expect(print({ body: "a", headers: { "X-A": "2" } })).not.toBe(base);
    expect(print({ body: "a", headers: { "X-A": "1" }, method: "PUT" })).not.toBe(base);
  });
});

function messages(input: GrpcInput): readonly string[] {
  try {
    assertGrpcInput(input);
    return [];
  } catch (error) {
    return (error as DocumentError).problems.map(({ message }) => message);
  }
}

describe("a task with a gRPC target", () => {
  it.each([
    [{}],
    [{ method: "POST" }],
    [{ headers: { Authorization: "Bearer a b", "x-bytes-bin": "AP8=", "X-Empty": "" } }],
    [{ headers: { "content-type": "application/grpc" } }],
    [{ headers: { "Content-Type": "application/grpc+json" } }],
  ])("accepts %j", (input) => {
    expect(messages(input)).toEqual([]);
  });

  it.each([
    [{ method: "PUT" }, 'method must be POST for a gRPC target, got "PUT"'],
    [
      { json: {} },
      "json cannot be sent to a gRPC target: encode the message and send it as body or bodyBase64",
    ],
    [
      { headers: { "x+y": "1" } },
      'header "x+y" is not a name of gRPC metadata: use a-z 0-9 _ . and -',
    ],
    [
      { headers: { "Grpc-Timeout": "1S" } },
      'header "Grpc-Timeout" is set by the service, not by a task',
    ],
    [{ headers: { "x-bin": "not base64!" } }, 'header "x-bin" must be bytes in Base64'],
    [
      { headers: { "x-name": "café" } },
      'header "x-name" must be a string of visible ASCII characters',
    ],
    [
      { headers: { "x-name": " x" } },
      'header "x-name" must be a string of visible ASCII characters',
    ],
    [
      { headers: { "content-type": "application/json" } },
      'header "content-type" must be application/grpc or begin with application/grpc+ for a gRPC target, got "application/json"',
    ],
  ])("refuses %j", (input, message) => {
    expect(messages(input)).toEqual([message]);
  });

  it("refuses a body of more bytes than the length of a message can say", () => {
    const bodyRef = (length: number) =>
      `019a0000-0000-7000-8000-000000000000.${length}.${"0".repeat(64)}`;
    expect(messages({ bodyRef: bodyRef(2 ** 32 - 1) })).toEqual([]);
    expect(messages({ bodyRef: bodyRef(2 ** 32) })).toHaveLength(1);
  });
});

describe("broker input", () => {
  const AMQP: BrokerPlace = { kind: "amqp", virtualHost: "/", exchange: "", routingKey: "q" };
  const REDIS: BrokerPlace = {
    kind: "redis-stream",
    database: 0,
    stream: "s",
    maxLen: undefined,
    creates: true,
  };

  function messages(input: BrokerInput, place = AMQP, body: Uint8Array | null = null) {
    try {
      assertBrokerInput(input, body, place);
      return [];
    } catch (error) {
      return (error as DocumentError).problems.map(({ message }) => message);
    }
  }

  const bodyRef = (length: number) =>
    `019a0000-0000-7000-8000-000000000000.${length}.${"0".repeat(64)}`;

  describe("a task whose target is a broker", () => {
    it.each([
      [{}],
      [{ method: "POST" }],
      [{ headers: { Authorization: "Basic Z3Vlc3Q6Z3Vlc3Q=", "content-type": "text/plain" } }],
      [{ headers: { [`x-${"y".repeat(253)}`]: "z".repeat(300) } }],
      [{ bodyRef: bodyRef(MAX_BROKER_MESSAGE) }],
    ])("accepts %j", (input) => {
      expect(messages(input)).toEqual([]);
    });

    it.each([
      [{ method: "PUT" }, 'method must be POST for a message, got "PUT"'],
      [
        { headers: { Authorization: "Bearer secret" } },
        'header "Authorization" must be "Basic" and the Base64 of user:password, without control characters, for a broker',
      ],
      [
        { headers: { "Content-Type": "x".repeat(256) } },
        'header "Content-Type" must be at most 255 bytes in AMQP',
      ],
      [
        { headers: { "idempotency-key": "é".repeat(128) } },
        'header "idempotency-key" must be at most 255 bytes in AMQP',
      ],
      [
        { bodyRef: bodyRef(MAX_BROKER_MESSAGE + 1) },
        "bodyRef must be at most 4194304 bytes for a message, got 4194305",
      ],
    ])("refuses %j", (input, message) => {
      expect(messages(input)).toEqual([message]);
    });

    it("refuses a name of a header that AMQP cannot have", () => {
      const [message] = messages({ headers: { ["x".repeat(256)]: "y" } });
      expect(message).toContain("must have a name of at most 255 bytes");
    });

    it("refuses a long body, however it is given", () => {
      expect(messages({}, AMQP, new Uint8Array(MAX_BROKER_MESSAGE))).toEqual([]);
      expect(messages({}, REDIS, new Uint8Array(MAX_BROKER_MESSAGE + 1))).toEqual([
        "body must be at most 4194304 bytes for a message, got 4194305",
      ]);
    });

    it("refuses a header with the name of the field that has the body in Redis", () => {
      expect(messages({ headers: { Body: "x" } }, REDIS)).toEqual([
        'header "Body" cannot be sent, because the field of that name has the body',
      ]);
      expect(messages({ headers: { Body: "x" } })).toEqual([]);
      expect(messages({ headers: { "content-type": "x".repeat(256) } }, REDIS)).toEqual([]);
    });
  });
});
