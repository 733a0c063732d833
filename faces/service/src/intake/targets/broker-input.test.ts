/** Tests of tasks whose target is a broker: what is refused, and with which messages. */
import type { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { BrokerPlace } from "../../deliver/address-guard/broker-target.ts";
import { assertBrokerInput, type BrokerInput, MAX_MESSAGE } from "./broker-input.ts";

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
    [{ bodyRef: bodyRef(MAX_MESSAGE) }],
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
      { bodyRef: bodyRef(MAX_MESSAGE + 1) },
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
    expect(messages({}, AMQP, new Uint8Array(MAX_MESSAGE))).toEqual([]);
    expect(messages({}, REDIS, new Uint8Array(MAX_MESSAGE + 1))).toEqual([
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
