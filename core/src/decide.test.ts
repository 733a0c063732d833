/** Tests of the one decision: every reason to stop, every wait, every hold. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { admit, type CallHistory, decide, type Gates, OPEN_GATES, remainingMs } from "./decide.ts";
import type { Outcome } from "./outcome.ts";
import { anyDraw, anyPolicy } from "./policy.testing.ts";
import { type PolicyDocument, resolve } from "./policy.ts";
import type { CallRequest } from "./repeatable.ts";

const THROWN: Outcome = { kind: "thrown" };
const FIRST: CallHistory = { attempt: 1, startedAt: 1000, previousDelayMs: 0 };

function counting(draw: number) {
  const random = {
    draws: 0,
    next() {
      random.draws++;
      return draw;
    },
    fork: () => random,
  };
  return random;
}

interface Case {
  readonly document?: PolicyDocument;
  readonly request?: CallRequest;
  readonly history?: Partial<CallHistory>;
  readonly outcome?: Outcome;
  readonly gates?: Gates;
  readonly now?: number;
  readonly draw?: number;
}

function run({ document, request, history, outcome, gates, now, draw }: Case = {}) {
  return decide(
    resolve(document ?? {}),
    request ?? {},
    { ...FIRST, ...history },
    outcome ?? THROWN,
    gates ?? OPEN_GATES,
    now ?? 1000,
    counting(draw ?? 0.5),
  );
}

const stopped = (reason: string) => ({ kind: "stop", status: "EXHAUSTED", reason });

describe("ends", () => {
  test("success and abort end a call whatever else holds", () => {
    expect(run({ outcome: { kind: "success" }, history: { attempt: 99 } })).toEqual({
      kind: "stop",
      status: "SUCCEEDED",
      reason: "succeeded",
    });
    expect(run({ outcome: { kind: "aborted" }, history: { attempt: 99 } })).toEqual({
      kind: "stop",
      status: "CANCELLED",
      reason: "aborted",
    });
  });

  test("what repeating cannot help is not retried", () => {
    expect(run({ outcome: { kind: "status", status: 400 } })).toEqual(stopped("not-retryable"));
    expect(run({ outcome: { kind: "fault" } })).toEqual(stopped("not-retryable"));
    expect(run({ outcome: { kind: "status", status: 503, refused: true } })).toEqual(
      stopped("not-retryable"),
    );
  });

  test("attempts run out at maxAttempts, not before", () => {
    expect(run({ document: { maxAttempts: 3 }, history: { attempt: 2 } }).kind).toBe("retry");
    expect(run({ document: { maxAttempts: 3 }, history: { attempt: 3 } })).toEqual(
      stopped("attempts"),
    );
  });

  test("the total budget is checked with the wait and the call, to the millisecond", () => {
    const document = { jitterType: "NONE", totalBudgetMs: 1000, minCallMs: 50 } as const;
    expect(run({ document, now: 1000 + 850 })).toMatchObject({ kind: "retry", delayMs: 100 });
    expect(run({ document, now: 1000 + 851 })).toEqual(stopped("budget"));
    const gates = { estimatedCallMs: 400 };
    expect(run({ document, now: 1000 + 500, gates }).kind).toBe("retry");
    expect(run({ document, now: 1000 + 501, gates })).toEqual(stopped("budget"));
  });

  test("an absolute deadline binds like the budget", () => {
    const document = { jitterType: "NONE", minCallMs: 0 } as const;
    expect(run({ document, request: { deadlineAt: 1100 } }).kind).toBe("retry");
    expect(run({ document, request: { deadlineAt: 1099 } })).toEqual(stopped("budget"));
  });

  test("a clock set back gives no extra time and no negative elapsed", () => {
    expect(run({ document: { jitterType: "NONE", totalBudgetMs: 101 }, now: 0 }).kind).toBe(
      "retry",
    );
    expect(remainingMs(resolve({}), {}, FIRST, 0)).toBe(30_000);
  });
});

describe("repeating what may have taken effect", () => {
  const unsent: Outcome = { kind: "error", errorClass: "connect", sent: false };
  const sent: Outcome = { kind: "error", errorClass: "timeout", sent: true };

  test("a POST without a key is repeated only if no byte left", () => {
    const request = { method: "POST" };
    expect(run({ request, outcome: sent })).toEqual(stopped("not-idempotent"));
    expect(run({ request, outcome: { kind: "status", status: 503 } })).toEqual(
      stopped("not-idempotent"),
    );
    expect(run({ request, outcome: unsent }).kind).toBe("retry");
  });

  test("a key, a declaration or an idempotent method makes it repeatable", () => {
    expect(run({ request: { method: "POST", idempotencyKey: "k" }, outcome: sent }).kind).toBe(
      "retry",
    );
    expect(run({ request: { method: "PATCH", idempotent: true }, outcome: sent }).kind).toBe(
      "retry",
    );
    expect(run({ request: { method: "PUT" }, outcome: sent }).kind).toBe("retry");
  });

  test("declared not idempotent, even a key does not help an ambiguous end", () => {
    const request = { method: "POST", idempotent: false, idempotencyKey: "k" };
    expect(run({ request, outcome: { kind: "abandoned" } })).toEqual(stopped("not-idempotent"));
  });
});

describe("waits", () => {
  test("the wait is the policy's own, drawn once", () => {
    const random = counting(0.25);
    const decision = decide(
      resolve({}),
      {},
      { ...FIRST, attempt: 3 },
      THROWN,
      OPEN_GATES,
      1000,
      random,
    );
    expect(decision).toEqual({ kind: "retry", delayMs: 100, ownDelayMs: 100, source: "policy" });
    expect(random.draws).toBe(1);
  });

  test("a policy without jitter draws nothing", () => {
    const random = counting(0.25);
    const policy = resolve({ jitterType: "NONE" });
    decide(policy, {}, FIRST, THROWN, OPEN_GATES, 1000, random);
    const hint: Outcome = { kind: "status", status: 503, retryAfterMs: 5000 };
    const decision = decide(policy, {}, FIRST, hint, OPEN_GATES, 1000, random);
    expect(decision).toMatchObject({ delayMs: 5000, source: "retry-after" });
    expect(random.draws).toBe(0);
  });

  test("an end draws nothing", () => {
    const random = counting(0.25);
    decide(resolve({}), {}, { ...FIRST, attempt: 5 }, THROWN, OPEN_GATES, 1000, random);
    decide(resolve({}), {}, FIRST, { kind: "fault" }, OPEN_GATES, 1000, random);
    expect(random.draws).toBe(0);
  });

  test("a throttling answer starts from its own base", () => {
    const document = { jitterType: "NONE", throttleDelayMs: 1000 } as const;
    expect(run({ document, outcome: { kind: "status", status: 429 } })).toMatchObject({
      delayMs: 1000,
    });
    expect(run({ document, outcome: { kind: "grpc", code: "RESOURCE_EXHAUSTED" } })).toMatchObject({
      delayMs: 1000,
    });
    expect(run({ document, outcome: { kind: "status", status: 503 } })).toMatchObject({
      delayMs: 100,
    });
  });

  test("a hint is the floor of the wait, and what the policy itself would have waited is kept", () => {
    const outcome: Outcome = { kind: "status", status: 503, retryAfterMs: 5000 };
    expect(run({ outcome, draw: 0 })).toEqual({
      kind: "retry",
      delayMs: 5000,
      ownDelayMs: 0,
      source: "retry-after",
    });
    expect(run({ outcome, draw: 0.5 })).toMatchObject({ delayMs: 5250, ownDelayMs: 50 });
    expect(run({ outcome, draw: 0.5, history: { attempt: 4 } })).toMatchObject({
      delayMs: 5400,
      ownDelayMs: 400,
    });
  });

  test("a hint past what is left ends the call at once; one that just fits does not", () => {
    const hint = (retryAfterMs: number): Outcome => ({ kind: "status", status: 503, retryAfterMs });
    const document = { totalBudgetMs: 5000, minCallMs: 0 };
    expect(run({ document, outcome: hint(5001) })).toEqual(stopped("retry-after"));
    expect(run({ document, outcome: hint(5000), draw: 0 })).toMatchObject({ delayMs: 5000 });
    expect(run({ document, outcome: hint(5000), draw: 0.9 })).toEqual(stopped("budget"));
    expect(
      run({ document: { ...document, respectRetryAfter: false }, outcome: hint(9e9) }),
    ).toMatchObject({ source: "policy" });
  });

  test("no wait is ever shorter than the hint, for any policy and draw", () => {
    const hint = fc.nat({ max: 2 * 86_400_000 });
    fc.assert(
      fc.property(anyPolicy, hint, anyDraw, (policy, retryAfterMs, draw) => {
        fc.pre(policy.respectRetryAfter && policy.maxAttempts > 1);
        const outcome: Outcome = { kind: "status", status: 503, retryAfterMs };
        const decision = decide(policy, {}, FIRST, outcome, OPEN_GATES, 1000, counting(draw));
        if (decision.kind !== "retry") return;
        const floorMs = Math.min(retryAfterMs, policy.maxRetryAfterMs);
        expect(decision.delayMs).toBeGreaterThanOrEqual(floorMs);
        expect(Number.isSafeInteger(decision.delayMs)).toBe(true);
      }),
    );
  });
});

describe("gates", () => {
  const document = { jitterType: "NONE" } as const;

  test("an impatient call does not sleep toward a closed door", () => {
    expect(run({ document, gates: { circuitOpenUntil: 1101 } })).toEqual(stopped("circuit-open"));
    expect(run({ document, gates: { circuitOpenUntil: 1100 } })).toMatchObject({ delayMs: 100 });
    expect(run({ document, gates: { retryBudgetUntil: 1001 } })).toEqual(stopped("retry-budget"));
  });

  test("a patient call is held without a retry, never before its own wait is over", () => {
    const request = { patience: "wait" } as const;
    expect(run({ document, request, gates: { circuitOpenUntil: 3000 } })).toEqual({
      kind: "hold",
      by: "circuit-open",
      until: 3000,
      ownDelayMs: 100,
    });
    expect(run({ document, request, gates: { retryBudgetUntil: 1001 } })).toEqual({
      kind: "hold",
      by: "retry-budget",
      until: 1100,
      ownDelayMs: 100,
    });
    expect(run({ document, request, gates: { retryBudgetUntil: 1500 } })).toMatchObject({
      until: 1500,
    });
  });

  test("a hold beyond the budget ends the call", () => {
    const request = { patience: "wait" } as const;
    const gates = (at: number) => ({ circuitOpenUntil: at });
    expect(run({ document, request, gates: gates(1000 + 29_999) }).kind).toBe("hold");
    expect(run({ document, request, gates: gates(1000 + 30_000) })).toEqual(stopped("budget"));
  });
});

describe("admit", () => {
  const none: CallHistory = { attempt: 0, startedAt: 1000, previousDelayMs: 0 };
  const ask = (gates: Gates, request: CallRequest = {}, history: CallHistory = none, now = 1000) =>
    admit(resolve({ maxAttempts: 2 }), request, history, gates, now);

  test("lets an attempt go when nothing is in its way", () => {
    expect(ask(OPEN_GATES)).toEqual({ kind: "go" });
    expect(ask({ circuitOpenUntil: 1000, rateUntil: 999 })).toEqual({ kind: "go" });
  });

  test("an open circuit ends an impatient call, and holds a patient one", () => {
    const gates = { circuitOpenUntil: 2000, pausedUntil: 5000 };
    expect(ask(gates)).toEqual(stopped("circuit-open"));
    expect(ask(gates, { patience: "wait" })).toMatchObject({
      kind: "hold",
      by: "pause",
      until: 5000,
    });
  });

  test("the longest of several holds is the one that is told", () => {
    const gates = { retryAfterUntil: 3000, rateUntil: 2000, retryBudgetUntil: 9000 };
    expect(ask(gates)).toMatchObject({ by: "retry-after", until: 3000 });
    expect(ask({ rateUntil: 2000 })).toMatchObject({ by: "rate", until: 2000 });
  });

  test("an empty retry budget holds retries, never first tries", () => {
    const gates = { retryBudgetUntil: 2000 };
    expect(ask(gates)).toEqual({ kind: "go" });
    expect(ask(gates, {}, { ...none, attempt: 1 })).toMatchObject({ by: "retry-budget" });
  });

  test("a call whose time or attempts are over goes nowhere", () => {
    expect(ask(OPEN_GATES, {}, { ...none, attempt: 2 })).toEqual(stopped("attempts"));
    expect(ask(OPEN_GATES, {}, none, 1000 + 30_000)).toEqual(stopped("budget"));
    expect(ask(OPEN_GATES, { deadlineAt: 1000 })).toEqual(stopped("budget"));
    expect(ask({ rateUntil: 40_000 })).toEqual(stopped("budget"));
  });
});
