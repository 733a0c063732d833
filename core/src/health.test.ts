/** Tests of what outcomes say about the destination. */
import { expect, test } from "vitest";
import { healthOf, loadOf } from "./health.ts";
import { judge, type Outcome } from "./outcome.ts";
import { resolve } from "./policy.ts";

const policy = resolve({});

test.each([
  [{ kind: "success" }, "success", "success"],
  [{ kind: "status", status: 503 }, "failure", "dropped"],
  [{ kind: "status", status: 500 }, "failure", "ignored"],
  [{ kind: "status", status: 429 }, "failure", "dropped"],
  [{ kind: "status", status: 404 }, "success", "ignored"],
  [{ kind: "status", status: 501 }, "failure", "ignored"],
  [{ kind: "grpc", code: "RESOURCE_EXHAUSTED" }, "failure", "dropped"],
  [{ kind: "grpc", code: "NOT_FOUND" }, "success", "ignored"],
  [{ kind: "error", errorClass: "timeout", sent: true }, "failure", "dropped"],
  [{ kind: "error", errorClass: "connect", sent: false }, "failure", "ignored"],
  [{ kind: "error", errorClass: "tls", sent: false }, "failure", "ignored"],
  [{ kind: "thrown" }, "failure", "ignored"],
  [{ kind: "thrown", verdict: "terminal" }, "ignored", "ignored"],
  [{ kind: "fault" }, "ignored", "ignored"],
  [{ kind: "aborted" }, "ignored", "ignored"],
] as const satisfies readonly (readonly [Outcome, string, string])[])(
  "%o counts as %s for the breaker and %s for the limit",
  (outcome, health, load) => {
    const verdict = judge(policy, outcome);
    expect(healthOf(outcome, verdict)).toBe(health);
    expect(loadOf(outcome, verdict)).toBe(load);
  },
);
