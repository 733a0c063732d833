/** Tests of what outcomes say about the destination's health. */
import { expect, test } from "vitest";
import { classifyOutcome, type Outcome } from "../decide/outcome.ts";
import { resolvePolicy } from "../policy/policy.ts";
import { breakerOutcomeOf, concurrencyOutcomeOf, isAccepted } from "./guard-outcomes.ts";

const policy = resolvePolicy({});

test.each([
  [{ kind: "success" }, "success", "success", true],
  [{ kind: "status", status: 503 }, "failure", "dropped", false],
  [{ kind: "status", status: 500 }, "failure", "ignored", true],
  [{ kind: "status", status: 429 }, "failure", "dropped", false],
  [{ kind: "status", status: 404 }, "success", "ignored", true],
  [{ kind: "status", status: 501 }, "failure", "ignored", true],
  [{ kind: "grpc", code: "RESOURCE_EXHAUSTED" }, "failure", "dropped", false],
  [{ kind: "grpc", code: "NOT_FOUND" }, "success", "ignored", true],
  [{ kind: "error", errorClass: "timeout", sent: true }, "failure", "dropped", false],
  [{ kind: "error", errorClass: "connect", sent: false }, "failure", "ignored", false],
  [{ kind: "error", errorClass: "tls", sent: false }, "failure", "ignored", false],
  [{ kind: "thrown" }, "failure", "ignored", false],
  [{ kind: "thrown", verdict: "terminal" }, "ignored", "ignored", false],
  [{ kind: "fault" }, "ignored", "ignored", false],
  [{ kind: "aborted" }, "ignored", "ignored", false],
] as const satisfies readonly (readonly [Outcome, string, string, boolean])[])(
  "%o counts as %s for the breaker, %s for the limit, and as accepted: %s",
  (outcome, health, load, accepted) => {
    const verdict = classifyOutcome(policy, outcome);
    expect(breakerOutcomeOf(outcome, verdict)).toBe(health);
    expect(concurrencyOutcomeOf(outcome, verdict)).toBe(load);
    expect(isAccepted(outcome, verdict)).toBe(accepted);
  },
);
