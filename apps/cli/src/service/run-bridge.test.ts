/** Tests of the task that a message becomes, and of what the service can never accept. */

import { DocumentError, type ErrorCode, RedriveError } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BridgeTaskOptions,
  bridgeTask,
  isOfMessage,
  rabbitMessage,
  redisMessage,
} from "./run-bridge.ts";

const OPTIONS: BridgeTaskOptions = {
  targetUrl: "http://127.0.0.1/",
  queue: "orders",
  headers: {},
  labels: {},
};

const rabbitBody = (properties: object) => ({
  content: Buffer.from("x"),
  properties,
  exchange: "",
  routingKey: "orders",
});

describe("the idempotency key", () => {
  const keyOf = (id: string, queue = "orders") =>
    bridgeTask(redisMessage(id, {}, undefined), { ...OPTIONS, queue }).idempotencyKey ?? "";

  test("has the queue and the id", () => {
    expect(keyOf("7-0")).toBe("orders:7-0");
  });

  test("is valid for every id, and different ids have different keys", () => {
    const unit = fc.constantFrom("a", ":", " ", "é", "\0");
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 400 }), fc.string({ unit }), (one, other) => {
        expect(keyOf(one)).toMatch(/^[\x21-\x7e]{1,255}$/);
        expect(keyOf(one) === keyOf(other)).toBe(one === other);
      }),
    );
  });

  test("of a long id is its hash, which depends on the queue", () => {
    const id = "x".repeat(300);
    expect(keyOf(id)).toMatch(/^sha256:[\da-f]{64}$/);
    expect(keyOf(id, "others")).not.toBe(keyOf(id));
  });
});

describe("headers", () => {
  test("of a message of RabbitMQ are its type, its trace and those that were asked for", () => {
    const body = rabbitBody({
      contentType: "text/plain",
      contentEncoding: "gzip",
      headers: { Traceparent: "00-1", Shop: "berlin", count: 7, list: ["x"], other: "no" },
    });
    expect(rabbitMessage("a", body, ["shop", "COUNT", "list"]).headers).toEqual({
      "content-type": "text/plain",
      "content-encoding": "gzip",
      traceparent: "00-1",
      shop: "berlin",
      count: "7",
    });
  });

  test("of the bridge override those of the message, whatever their case", () => {
    const message = rabbitMessage("a", rabbitBody({ contentType: "text/plain" }), []);
    const task = bridgeTask(message, { ...OPTIONS, headers: { "Content-Type": "text/html" } });
    expect(task.headers).toEqual({ "content-type": "text/html" });
  });
});

describe("an entry of Redis", () => {
  const fields = {
    body: "{}",
    "content-type": "application/json",
    traceparent: "00-1",
    shop: "berlin",
  };

  test("has its type and its trace beside its body", () => {
    const { content, headers } = redisMessage("1-1", fields, "body");
    expect([content.toString(), headers]).toEqual([
      "{}",
      { "content-type": "application/json", traceparent: "00-1" },
    ]);
  });

  test("is JSON as a whole without a field for the body", () => {
    const { content, headers } = redisMessage("1-1", fields, undefined);
    expect(JSON.parse(content.toString())).toEqual(fields);
    expect(headers).toEqual({ "content-type": "application/json" });
  });
});

describe("the number of services that a message has passed", () => {
  test.each([
    ["3", 3],
    [2, 2],
    [undefined, 0],
    ["many", 0],
    ["-1", 0],
    [["3"], 0],
  ])("%j is %s", (hop, expected) => {
    const body = rabbitBody({ headers: { "redrive-hop": hop } });
    expect(rabbitMessage("a", body, ["redrive-hop"])).toMatchObject({ hops: expected });
    expect(rabbitMessage("a", body, ["redrive-hop"]).headers).toEqual({});
    if (typeof hop !== "string") return;
    const fields = { "redrive-hop": hop, body: "x" };
    expect(redisMessage("1-1", fields, "body")).toMatchObject({ hops: expected });
    expect(redisMessage("1-1", fields, undefined)).toMatchObject({ hops: expected });
  });
});

describe("a refusal of the service", () => {
  const about = (...fields: string[]) =>
    new DocumentError(
      "INVALID_ARGUMENT",
      fields.map((field) => ({ field, value: undefined, message: `${field} is bad` })),
    );

  test.each([
    [about("headers.host"), true],
    [about("body", "idempotencyKey"), true],
    [about("targetUrl"), false],
    [about("body", "method"), false],
    [new RedriveError("BODY_TOO_LARGE", "too large"), true],
    [new RedriveError("IDEMPOTENCY_CONFLICT", "another payload"), true],
    [new RedriveError("UNAUTHENTICATED" as ErrorCode, "no key"), false],
    [new RedriveError("INVALID_ARGUMENT", "not a service"), false],
    [new TypeError("fetch failed"), false],
  ])("%s is of the message: %s", (error, expected) => {
    expect(isOfMessage(error)).toBe(expected);
  });
});
