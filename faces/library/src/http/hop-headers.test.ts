/** Tests of hop headers: who retries above, and how long for, in every spelling we know. */
import { describe, expect, test } from "vitest";
import { START_AT } from "../call/world.testing.ts";
import { callerLayer, readHeader } from "./hop-headers.ts";

describe("a header is read", () => {
  test("from a Headers, from Node's record, and from lists", () => {
    expect(readHeader(new Headers({ "Redrive-Attempt": "2" }), "Redrive-Attempt")).toBe("2");
    expect(readHeader({ "redrive-attempt": "2" }, "Redrive-Attempt")).toBe("2");
    expect(readHeader({ "redrive-attempt": ["2", "3"] }, "Redrive-Attempt")).toBe("2");
    expect(readHeader({}, "Redrive-Attempt")).toBeUndefined();
    expect(readHeader(new Map([["Redrive-Attempt", "1"]]), "Redrive-Attempt")).toBe("1");
  });
});

describe("a retrying layer above is known by", () => {
  test.each([
    ["ours", { "redrive-attempt": "1" }],
    ["an AWS SDK's", { "amz-sdk-request": "attempt=1; max=3" }],
    ["gRPC's", { "grpc-previous-rpc-attempts": "1" }],
    ["Envoy's", { "x-envoy-attempt-count": "1" }],
    ["Stainless's", { "x-stainless-retry-count": "0" }],
  ])("%s header", (_, headers) => {
    expect(callerLayer(headers, START_AT)).toMatchObject({ location: "caller", retries: true });
  });

  test("but not where it says that it makes one attempt, or says nothing", () => {
    expect(callerLayer({ "amz-sdk-request": "attempt=1; max=1" }, START_AT).retries).toBe(false);
    expect(callerLayer({ "amz-sdk-request": "attempt=1; max=10" }, START_AT).retries).toBe(true);
    expect(callerLayer({}, START_AT).retries).toBe(false);
  });
});

describe("the time left is known by", () => {
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

  test.each(["", "-1", "1.5", "soon", "123456789012", "1e3"])("not by %j", (text) => {
    expect(callerLayer({ "redrive-remaining-ms": text }, START_AT).deadlineAt).toBeUndefined();
    expect(callerLayer({ "grpc-timeout": `${text}S ` }, START_AT).deadlineAt).toBeUndefined();
  });
});
