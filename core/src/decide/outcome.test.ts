/**
 * Tests of outcomes and their classification by a policy.
 * Tests of the texts of stored statuses.
 */
import { describe, expect, test } from "vitest";
import {
  classifyOutcome,
  grpcOutcome,
  type Outcome,
  recordedOutcome,
  statusOutcome,
  statusText,
} from "./outcome.ts";
import { resolvePolicy } from "./policy.ts";

const policy = resolvePolicy({});

describe("statuses", () => {
  test.each([200, 201, 204, 299])("%d is success", (status) => {
    expect(classifyOutcome(policy, statusOutcome(status))).toBe("success");
  });

  test.each([408, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524])(
    "%d is transient",
    (status) => {
      expect(classifyOutcome(policy, statusOutcome(status))).toBe("transient");
    },
  );

  test("409 with a wait is as temporary as 503 for the policy", () => {
    const outcome = statusOutcome(409, 1000);
    expect(classifyOutcome(policy, outcome)).toBe("transient");
    const only = (status: number) => resolvePolicy({ retryableStatusCodes: [status] });
    expect(classifyOutcome(only(503), outcome)).toBe("transient");
    expect(classifyOutcome(only(409), outcome)).toBe("transient");
    expect(classifyOutcome(only(500), outcome)).toBe("terminal");
  });

  test("429 is throttling", () => {
    expect(classifyOutcome(policy, statusOutcome(429))).toBe("throttled");
  });

  test.each([
    101, 199, 300, 301, 304, 308, 400, 401, 403, 404, 405, 409, 410, 413, 422, 501, 505, 511, 600,
    999,
  ])("%d is final", (status) => {
    expect(classifyOutcome(policy, statusOutcome(status))).toBe("terminal");
  });

  test("the policy's list decides", () => {
    const own = resolvePolicy({ retryableStatusCodes: [409] });
    expect(classifyOutcome(own, statusOutcome(409))).toBe("transient");
    expect(classifyOutcome(own, statusOutcome(503))).toBe("terminal");
  });
});

describe("gRPC codes", () => {
  test.each([
    ["OK", "success"],
    ["UNAVAILABLE", "transient"],
    ["RESOURCE_EXHAUSTED", "throttled"],
    ["CANCELLED", "aborted"],
    ["INTERNAL", "terminal"],
    ["DEADLINE_EXCEEDED", "terminal"],
  ] as const)("%s is %s", (code, verdict) => {
    expect(classifyOutcome(policy, grpcOutcome(code))).toBe(verdict);
  });

  test("a stored status is that of HTTP or a code, also CANCELLED", () => {
    const statuses = [204, 503, 0, 14, 1];
    expect(statuses.map((status) => classifyOutcome(policy, recordedOutcome(status)))).toEqual([
      "success",
      "transient",
      "success",
      "transient",
      "terminal",
    ]);
  });

  test("pushback is a hint, or a refusal", () => {
    expect(grpcOutcome("UNAVAILABLE", 40)).toEqual({
      kind: "grpc",
      code: "UNAVAILABLE",
      retryAfterMs: 40,
    });
    expect(classifyOutcome(policy, grpcOutcome("UNAVAILABLE", "refused"))).toBe("terminal");
  });
});

describe("the rest", () => {
  test.each(["timeout", "connect", "reset", "dns", "protocol"] as const)(
    "%s is transient",
    (errorClass) => {
      expect(classifyOutcome(policy, { kind: "error", errorClass, sent: true })).toBe("transient");
    },
  );

  test.each([
    [{ kind: "error", errorClass: "tls", sent: false }, "terminal"],
    [{ kind: "thrown" }, "transient"],
    [{ kind: "abandoned" }, "transient"],
    [{ kind: "fault" }, "terminal"],
    [{ kind: "aborted" }, "aborted"],
    [{ kind: "success" }, "success"],
  ] as const satisfies readonly (readonly [Outcome, string])[])("%o is %s", (outcome, verdict) => {
    expect(classifyOutcome(policy, outcome)).toBe(verdict);
  });

  test("a success stays a success, whatever the hint says", () => {
    expect(classifyOutcome(policy, { kind: "success", refused: true })).toBe("success");
  });

  test("the caller's classification wins", () => {
    expect(classifyOutcome(policy, { kind: "success", verdict: "transient" })).toBe("transient");
    expect(
      classifyOutcome(policy, { kind: "status", status: 503, refused: true, verdict: "throttled" }),
    ).toBe("throttled");
  });
});

test("an HTTP status is a number, and a gRPC code has a name", () => {
  expect([200, 503, 0, 14, 16, 17].map(statusText)).toEqual([
    "200",
    "503",
    "OK",
    "UNAVAILABLE",
    "UNAUTHENTICATED",
    "17",
  ]);
});
