/** Tests of hop headers: whether the caller retries, and its remaining time, in every known form. */
import { describe, expect, test } from "vitest";
import { START_AT } from "../call/world.testing.ts";
import { attemptNumber, callerLayer, readHeader } from "./hop-headers.ts";

describe("a header is read", () => {
  test("from a Headers, from Node's record, and from lists", () => {
    expect(readHeader(new Headers({ "Redrive-Attempt": "2" }), "Redrive-Attempt")).toBe("2");
    expect(readHeader({ "redrive-attempt": "2" }, "Redrive-Attempt")).toBe("2");
    expect(readHeader({ "redrive-attempt": ["2", "3"] }, "Redrive-Attempt")).toBe("2");
    expect(readHeader({}, "Redrive-Attempt")).toBeUndefined();
    expect(readHeader(new Map([["Redrive-Attempt", "1"]]), "Redrive-Attempt")).toBe("1");
  });
});

describe("a retrying caller is recognized by", () => {
  test.each([
    ["ours", { "redrive-attempt": "1" }],
    ["an AWS SDK's", { "amz-sdk-request": "attempt=1; max=3" }],
    ["an AWS SDK's that has retried", { "amz-sdk-request": "attempt=2" }],
    ["gRPC's", { "grpc-previous-rpc-attempts": "1" }],
    ["Envoy's", { "x-envoy-attempt-count": "2" }],
    ["Stainless's", { "x-stainless-retry-count": "1" }],
    ["a client's behind a mesh", { "x-stainless-retry-count": "1", "x-envoy-attempt-count": "1" }],
  ])("%s header", (_, headers) => {
    expect(callerLayer(headers, START_AT)).toMatchObject({ location: "caller", retries: true });
  });

  test.each([
    ["nothing", {}],
    ["an AWS SDK that makes one attempt", { "amz-sdk-request": "attempt=1; max=1" }],
    ["an AWS SDK that does not say its maximum", { "amz-sdk-request": "attempt=1" }],
    ["a mesh that counts every request", { "x-envoy-attempt-count": "1" }],
    ["a Stainless client at its first attempt", { "x-stainless-retry-count": "0" }],
    ["gRPC at its first attempt", { "grpc-previous-rpc-attempts": "0" }],
    ["a value that is not a count", { "x-envoy-attempt-count": "many" }],
  ])("but %s proves nothing", (_, headers) => {
    expect(callerLayer(headers, START_AT).retries).toBe(false);
  });

  test("an AWS SDK with a maximum of ten is not one with a maximum of one", () => {
    expect(callerLayer({ "amz-sdk-request": "attempt=1; max=10" }, START_AT).retries).toBe(true);
  });
});

test.each([
  [{}, 1],
  [{ "redrive-attempt": "3", "x-envoy-attempt-count": "1" }, 3],
  [{ "x-envoy-attempt-count": "1", "amz-sdk-request": "attempt=2; max=3" }, 2],
  [{ "x-envoy-attempt-count": "1", "x-stainless-retry-count": "2" }, 3],
  [{ "grpc-previous-rpc-attempts": "1" }, 2],
])("the attempt number of %j is %d: a count of 1 by a mesh hides no retry", (headers, number) => {
  expect(attemptNumber(headers)).toBe(number);
});

describe("the remaining time is read from", () => {
  test.each([
    ["ours", { "redrive-remaining-ms": "1500" }, 1500],
    ["gRPC's hours", { "grpc-timeout": "2H" }, 7_200_000],
    ["gRPC's minutes", { "grpc-timeout": "3M" }, 180_000],
    ["gRPC's seconds", { "grpc-timeout": "4S" }, 4000],
    ["gRPC's ms", { "grpc-timeout": "250m" }, 250],
    ["gRPC's us", { "grpc-timeout": "2500u" }, 2],
    ["gRPC's ns", { "grpc-timeout": "99999999n" }, 99],
    ["Envoy's", { "x-envoy-expected-rq-timeout-ms": "800" }, 800],
    ["ours first", { "redrive-remaining-ms": "5", "grpc-timeout": "9S" }, 5],
  ])("%s", (_, headers, leftMs) => {
    expect(callerLayer(headers, START_AT).deadlineAt).toBe(START_AT + leftMs);
  });

  test.each(["", "-1", "1.5", "soon", "123456789012", "1e3"])("not from %j", (text) => {
    expect(callerLayer({ "redrive-remaining-ms": text }, START_AT).deadlineAt).toBeUndefined();
    expect(callerLayer({ "grpc-timeout": `${text}S ` }, START_AT).deadlineAt).toBeUndefined();
  });
});
