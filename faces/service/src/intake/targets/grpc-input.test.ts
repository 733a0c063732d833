/** Tests of tasks with a gRPC target: what is refused, and with which messages. */
import type { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { assertGrpcInput, type GrpcInput } from "./grpc-input.ts";

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
