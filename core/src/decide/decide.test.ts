/** Tests of decide: every reason to stop, every wait, every hold. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  admit,
  type CallHistory,
  decide,
  type EntryGate,
  type Gates,
  type HoldReason,
  OPEN_ENTRY,
  OPEN_GATES,
  remainingMs,
} from "./decide.ts";
import type { Outcome } from "./outcome.ts";
import { anyDraw, anyPolicy } from "./policy.testing.ts";
import { type PolicyDocument, resolvePolicy } from "./policy.ts";
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
    resolvePolicy(document ?? {}),
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
  test("success and abort always end a call", () => {
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

  test("an outcome that would not change is not retried", () => {
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

  test("an absolute deadline works like the budget", () => {
    const document = { jitterType: "NONE", minCallMs: 0 } as const;
    expect(run({ document, request: { deadlineAt: 1100 } }).kind).toBe("retry");
    expect(run({ document, request: { deadlineAt: 1099 } })).toEqual(stopped("budget"));
  });

  test("a clock set back gives no extra time and no negative elapsed time", () => {
    expect(run({ document: { jitterType: "NONE", totalBudgetMs: 101 }, now: 0 }).kind).toBe(
      "retry",
    );
    expect(remainingMs(resolvePolicy({}), {}, FIRST, 0)).toBe(30_000);
  });
});

describe("repeating a call that may have taken effect", () => {
  const unsent: Outcome = { kind: "error", errorClass: "connect", sent: false };
  const sent: Outcome = { kind: "error", errorClass: "timeout", sent: true };

  test("a POST without a key is repeated only if no byte was sent", () => {
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

  test("a call declared not idempotent is not repeated after an ambiguous outcome, even with a key", () => {
    const request = { method: "POST", idempotent: false, idempotencyKey: "k" };
    expect(run({ request, outcome: { kind: "abandoned" } })).toEqual(stopped("not-idempotent"));
  });
});

describe("waits", () => {
  test("the wait is the policy's own, drawn once", () => {
    const random = counting(0.25);
    const decision = decide(
      resolvePolicy({}),
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
    const policy = resolvePolicy({ jitterType: "NONE" });
    decide(policy, {}, FIRST, THROWN, OPEN_GATES, 1000, random);
    const hint: Outcome = { kind: "status", status: 503, retryAfterMs: 5000 };
    const decision = decide(policy, {}, FIRST, hint, OPEN_GATES, 1000, random);
    expect(decision).toMatchObject({ delayMs: 5000, source: "retry-after" });
    expect(random.draws).toBe(0);
  });

  test("a stop draws nothing", () => {
    const random = counting(0.25);
    decide(resolvePolicy({}), {}, { ...FIRST, attempt: 5 }, THROWN, OPEN_GATES, 1000, random);
    decide(resolvePolicy({}), {}, FIRST, { kind: "fault" }, OPEN_GATES, 1000, random);
    expect(random.draws).toBe(0);
  });

  test("a throttling response starts from its own base", () => {
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

  test("a hint is the minimum wait, and the policy's own wait is kept", () => {
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

  test("a hint beyond the remaining time ends the call at once; one that just fits does not", () => {
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

  test("a fail-fast call does not wait for a closed gate", () => {
    expect(run({ document, gates: { circuitOpenUntil: 1101 } })).toEqual(stopped("circuit-open"));
    expect(run({ document, gates: { circuitOpenUntil: 1100 } })).toMatchObject({ delayMs: 100 });
    expect(run({ document, gates: { retryBudgetUntil: 1001 } })).toEqual(stopped("retry-budget"));
  });

  test("a patient call is held without a retry, at least for its own wait", () => {
    const request = { patience: "wait" } as const;
    expect(run({ document, request, gates: { circuitOpenUntil: 3000 } })).toEqual({
      kind: "hold",
      by: "circuit-open",
      until: 3000,
      ownDelayMs: 100,
    });
    expect(run({ document, request, gates: { retryBudgetUntil: 1500 } })).toEqual({
      kind: "hold",
      by: "retry-budget",
      until: 1500,
      ownDelayMs: 100,
    });
  });

  test("a guard that holds no longer than the policy's own wait has no effect", () => {
    const request = { patience: "wait" } as const;
    const retry = { kind: "retry", delayMs: 100, ownDelayMs: 100, source: "policy" };
    for (const gate of ["circuitOpenUntil", "retryAfterUntil", "pausedUntil", "retryBudgetUntil"]) {
      expect(run({ document, request, gates: { [gate]: 1100 } })).toEqual(retry);
      expect(run({ document, request, gates: { [gate]: 1101 } }).kind).toBe("hold");
    }
  });

  test("a Retry-After gate and a pause hold a retry of patient and fail-fast callers", () => {
    for (const request of [{}, { patience: "wait" }] as const) {
      expect(run({ document, request, gates: { retryAfterUntil: 3000 } })).toMatchObject({
        kind: "hold",
        by: "retry-after",
        until: 3000,
      });
      expect(run({ document, request, gates: { pausedUntil: 4000 } })).toMatchObject({
        kind: "hold",
        by: "pause",
        until: 4000,
      });
      const forever = { pausedUntil: Number.POSITIVE_INFINITY };
      expect(run({ document, request, gates: forever })).toMatchObject({ kind: "retry" });
    }
  });

  test("a destination that allows no retries ends the call, and nothing is drawn", () => {
    const random = counting(0.5);
    const gates = { refusesRetries: true };
    const decision = decide(resolvePolicy({}), {}, FIRST, THROWN, gates, 1000, random);
    expect(decision).toEqual(stopped("overload"));
    expect(random.draws).toBe(0);
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
  const FOREVER = Number.POSITIVE_INFINITY;
  const until = (heldBy: HoldReason, heldUntil: number): EntryGate => ({
    heldBy,
    heldUntil,
    heldAtLeastUntil: Number.isFinite(heldUntil) ? heldUntil : 0,
  });
  const ask = (gate: EntryGate, request: CallRequest = {}, history = none, now = 1000) =>
    admit(resolvePolicy({ maxAttempts: 2 }), request, history, gate, now);

  test("starts an attempt if no guard holds it", () => {
    expect(ask(OPEN_ENTRY)).toEqual({ kind: "go" });
    expect(ask(OPEN_ENTRY, {}, { ...none, attempt: 1 })).toEqual({ kind: "go" });
    expect(ask(until("circuit-open", 1000))).toEqual({ kind: "go" });
    expect(ask(until("rate", 999))).toEqual({ kind: "go" });
  });

  test("holds an attempt for the guard that holds it, and keeps the policy's own wait", () => {
    const retry = { ...none, attempt: 1, previousDelayMs: 70 };
    for (const patience of ["wait", "fail-fast"] as const) {
      for (const by of ["retry-after", "circuit-open", "rate", "retry-budget"] as const) {
        const hold = { kind: "hold", by, until: 2000 };
        expect(ask(until(by, 2000), { patience })).toEqual({ ...hold, ownDelayMs: 0 });
        expect(ask(until(by, 2000), { patience }, retry)).toEqual({ ...hold, ownDelayMs: 70 });
      }
    }
  });

  test("a call waits for a guard with an unknown end, however little time is left", () => {
    for (const by of ["pause", "concurrency"] as const) {
      for (const now of [1000, 30_999]) {
        expect(ask(until(by, FOREVER), {}, none, now)).toEqual({
          kind: "hold",
          by,
          until: FOREVER,
          ownDelayMs: 0,
        });
      }
    }
  });

  test("a call without time or attempts left does not start", () => {
    expect(ask(OPEN_ENTRY, {}, { ...none, attempt: 2 })).toEqual(stopped("attempts"));
    expect(ask(OPEN_ENTRY, {}, none, 1000 + 30_000)).toEqual(stopped("budget"));
    expect(ask(OPEN_ENTRY, { deadlineAt: 1000 })).toEqual(stopped("budget"));
    const over = { ...none, attempt: 2, heldBy: "rate" } as const;
    expect(ask(until("rate", FOREVER), {}, over, 1000 + 30_000)).toEqual(stopped("attempts"));
    // No guard held it before its time was over, so the current guard is not the reason.
    expect(ask(until("rate", FOREVER), {}, none, 1000 + 30_000)).toEqual(stopped("budget"));
  });

  test("a first attempt that a guard holds past its time ends as held, and names the guard", () => {
    const held = (by: HoldReason) => ({ ...stopped("held"), by });
    expect(ask(until("rate", 40_000))).toEqual(held("rate"));
    expect(ask(until("circuit-open", 40_000), { patience: "wait" })).toEqual(held("circuit-open"));
    const waited: CallHistory = { ...none, heldBy: "concurrency" };
    expect(ask(OPEN_ENTRY, {}, waited, 1000 + 30_000)).toEqual(held("concurrency"));
    expect(ask(until("pause", FOREVER), {}, waited, 1000 + 30_000)).toEqual(held("concurrency"));
    expect(ask(until("rate", 40_000), {}, waited)).toEqual(held("rate"));
  });

  test("a call waits for a guard that may change earlier, however late its instant is", () => {
    const budget: EntryGate = { heldBy: "retry-budget", heldUntil: 40_000, heldAtLeastUntil: 1000 };
    const retry: CallHistory = { ...none, attempt: 1 };
    expect(ask(budget, { patience: "wait" }, retry)).toMatchObject({ kind: "hold", until: 40_000 });
    const rateToo: EntryGate = { ...budget, heldAtLeastUntil: 39_000 };
    expect(ask(rateToo, { patience: "wait" }, retry)).toMatchObject({
      kind: "stop",
      reason: "budget",
    });
  });

  test("a hold that ends with the time is too long, one that ends a millisecond before is not", () => {
    const held = { ...stopped("held"), by: "rate" };
    expect(ask(until("rate", 1000 + 29_999)).kind).toBe("hold");
    expect(ask(until("rate", 1000 + 30_000))).toEqual(held);
    expect(ask(until("rate", 1499), { deadlineAt: 1500 }).kind).toBe("hold");
    expect(ask(until("rate", 1500), { deadlineAt: 1500 })).toEqual(held);
  });

  test("a retry that a guard holds past its time ends with the reason budget", () => {
    const retry: CallHistory = { ...none, attempt: 1, heldBy: "rate" };
    expect(ask(until("rate", 40_000), {}, retry)).toEqual(stopped("budget"));
    expect(ask(OPEN_ENTRY, {}, retry, 1000 + 30_000)).toEqual(stopped("budget"));
  });

  test("a call with any time left starts, held before or not", () => {
    const at = (leftMs: number) => 1000 + 30_000 - leftMs;
    const waited: CallHistory = { ...none, heldBy: "rate" };
    for (const history of [none, waited]) {
      expect(ask(OPEN_ENTRY, {}, history, at(1))).toEqual({ kind: "go" });
    }
    expect(ask(OPEN_ENTRY, {}, waited, at(0))).toEqual({ ...stopped("held"), by: "rate" });
    expect(ask(OPEN_ENTRY, {}, none, at(0))).toEqual(stopped("budget"));
  });
});
