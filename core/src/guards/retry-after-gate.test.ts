/** Tests of the Retry-After gate: which responses hold every call, and for how long. */
import { describe, expect, test } from "vitest";
import type { Outcome } from "../decide/outcome.ts";
import { type PolicyDocument, resolvePolicy } from "../policy/policy.ts";
import { admissionOf, askedFor, entered, FIRST, leave, T0 } from "./admission/admission.testing.ts";
import { GATE_DEFAULTS, gateUntil } from "./retry-after-gate.ts";

const until = (outcome: Outcome, document: PolicyDocument = {}, maxGateMs = 300_000) =>
  gateUntil({ maxGateMs }, resolvePolicy(document), outcome, T0);

const status = (code: number, retryAfterMs?: number): Outcome => ({
  kind: "status",
  status: code,
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});

describe("which responses close it", () => {
  test.each([429, 503])("a %d that asks for a wait holds every call for that long", (code) => {
    expect(until(status(code, 7000))).toBe(T0 + 7000);
  });

  test.each([
    ["a 429 that asks for nothing", status(429)],
    ["a 429 that asks for no time", status(429, 0)],
    ["a 429 that asks for less than none", status(429, -5)],
    ["any other status", status(500, 7000)],
    ["a redirect", status(301, 7000)],
    ["a success", { kind: "success", status: 200, retryAfterMs: 7000 }],
    ["gRPC pushback", { kind: "grpc", code: "RESOURCE_EXHAUSTED", retryAfterMs: 7000 }],
    ["a thrown error", { kind: "thrown", retryAfterMs: 7000 }],
  ] as const satisfies readonly (readonly [string, Outcome])[])("%s does not", (_, outcome) => {
    expect(until(outcome)).toBe(0);
  });

  test("a policy that does not respect Retry-After closes no gate", () => {
    expect(until(status(429, 7000), { respectRetryAfter: false })).toBe(0);
  });
});

describe("for how long", () => {
  test("at most maxGateMs, by default five minutes, and at most maxRetryAfterMs of the policy", () => {
    expect(GATE_DEFAULTS).toEqual({ maxGateMs: 300_000 });
    expect(until(status(503, 300_000))).toBe(T0 + 300_000);
    expect(until(status(503, 300_001))).toBe(T0 + 300_000);
    expect(until(status(503, 7000), {}, 1)).toBe(T0 + 1);
    expect(until(status(503, 7000), { maxRetryAfterMs: 2000 })).toBe(T0 + 2000);
  });

  test("a later response never opens it earlier", () => {
    const admission = admissionOf({}, GATE_DEFAULTS);
    const permits = [1, 2, 3].map(() => entered(admission, FIRST, T0));
    const hints = [5000, 1000, 7000];
    const shutUntil = permits.map((permit, n) => {
      leave(admission, permit, askedFor(hints[n] ?? 0), T0 + n);
      return admission.gateUntil - T0;
    });
    expect(shutUntil).toEqual([5000, 5000, 7002]);
  });

  test("a destination without a gate is never closed", () => {
    const admission = admissionOf({}, undefined);
    leave(admission, entered(admission, FIRST, T0), askedFor(5000), T0);
    expect(admission.check(FIRST, undefined, T0)).toBeUndefined();
  });
});
