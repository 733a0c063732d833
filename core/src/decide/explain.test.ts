/** Tests of explanations of decisions. */
import { expect, test } from "vitest";
import type { StopReason } from "../documents/errors.ts";
import type { Decision } from "./decide.ts";
import { explain } from "./explain.ts";
import type { Outcome } from "./outcome.ts";
import { resolvePolicy } from "./policy.ts";

function explained(outcome: Outcome, decision: Decision): string {
  const history = { attempt: 2, startedAt: 1000, previousDelayMs: 100 };
  return explain({ policy: resolvePolicy({}), history, outcome, decision, now: 1700 });
}

const stop = (reason: StopReason): Decision => ({ kind: "stop", status: "EXHAUSTED", reason });

test.each([
  [
    { kind: "status", status: 503 },
    { kind: "retry", delayMs: 212, ownDelayMs: 212, source: "policy" },
    "Attempt 2 of 5 was answered with status 503: the next one starts in 212 ms.",
  ],
  [
    { kind: "status", status: 429, retryAfterMs: 5000 },
    { kind: "retry", delayMs: 5040, ownDelayMs: 9, source: "retry-after" },
    "Attempt 2 of 5 was answered with status 429: the next one starts in 5.04 s (it asked for 5 s).",
  ],
  [
    { kind: "error", errorClass: "timeout", sent: true },
    { kind: "hold", by: "circuit-open", until: 4700, ownDelayMs: 1 },
    "Attempt 2 of 5 failed (timeout): held back 3 s by the open circuit.",
  ],
  [
    { kind: "error", errorClass: "dns", sent: false },
    { kind: "hold", by: "pause", until: 1, ownDelayMs: 1 },
    "Attempt 2 of 5 failed (dns, nothing was sent): held back 0 ms by a pause.",
  ],
  [
    { kind: "thrown" },
    { kind: "hold", by: "concurrency", until: Number.POSITIVE_INFINITY, ownDelayMs: 1 },
    "Attempt 2 of 5 threw an error: held back by the concurrency limit.",
  ],
  [
    { kind: "thrown" },
    { kind: "hold", by: "throttle", until: 2700, ownDelayMs: 1 },
    "Attempt 2 of 5 threw an error: held back 1 s by the throttle.",
  ],
  [
    { kind: "thrown" },
    stop("held"),
    "Attempt 2 of 5 threw an error: its guards held it until its time was over, before any attempt (700 ms of the 30 s in totalBudgetMs have passed).",
  ],
  [
    { kind: "grpc", code: "UNAVAILABLE" },
    stop("attempts"),
    "Attempt 2 of 5 was answered with UNAVAILABLE: no attempts are left (maxAttempts 5).",
  ],
  [
    { kind: "thrown" },
    stop("budget"),
    "Attempt 2 of 5 threw an error: another attempt cannot end in time (700 ms of the 30 s in totalBudgetMs have passed).",
  ],
  [
    { kind: "abandoned" },
    stop("not-idempotent"),
    "Attempt 2 of 5 was lost in a crash: it may have taken effect and the call is not known to be idempotent, so it is not repeated.",
  ],
  [
    { kind: "success" },
    { kind: "stop", status: "SUCCEEDED", reason: "succeeded" },
    "Attempt 2 of 5 succeeded: the call is done.",
  ],
  [
    { kind: "fault" },
    stop("not-retryable"),
    "Attempt 2 of 5 threw an error that is not a transient failure: repeating it would not help, so it is not retried.",
  ],
  [{ kind: "aborted" }, stop("aborted"), "Attempt 2 of 5 was aborted: the caller aborted it."],
] as const satisfies readonly (readonly [Outcome, Decision, string])[])(
  "%o",
  (outcome, decision, sentence) => {
    expect(explained(outcome, decision)).toBe(sentence);
  },
);

test.each([
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
  "abandoned",
  "poison",
  "body-unavailable",
  "secret-unavailable",
  "target-denied",
] as const)("%s has its own sentence", (reason) => {
  const sentence = explained({ kind: "thrown" }, stop(reason));
  expect(sentence).toMatch(/^Attempt 2 of 5 threw an error: [a-z].{20,}\.$/);
  expect(sentence).not.toBe(explained({ kind: "thrown" }, stop("attempts")));
});
