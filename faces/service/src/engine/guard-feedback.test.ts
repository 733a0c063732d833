/** Tests of what a destination's guards record about an attempt: the same as in the library. */
import {
  budgetAllows,
  classifyOutcome,
  type Outcome,
  rejectShare,
  resolvePolicy,
  seededRandom,
  type Throttle,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DestinationRuntime } from "./destination-runtime.ts";

const NOW = 1_000_000;
const policy = resolvePolicy({});

function destinationWith(document: object) {
  const key = { tenantId: "t", name: "d" };
  const destination = new DestinationRuntime(seededRandom(1), key, NOW, undefined);
  const row = { ...destination.row, version: 1, document: JSON.stringify(document) };
  destination.adopt(row, NOW);
  const attempt = (outcome: Outcome, durationMs = 10) => {
    const permit = destination.takePermit(false, NOW);
    if (permit === undefined) throw new Error("no permit was to be had");
    destination.recordOutcome(
      permit,
      NOW,
      policy,
      outcome,
      classifyOutcome(policy, outcome),
      durationMs,
    );
  };
  const change = (next: object) => {
    const { version } = destination.row;
    const changed = { ...destination.row, version: version + 1, document: JSON.stringify(next) };
    destination.adopt(changed, NOW);
  };
  return { destination, attempt, change };
}

/** Does its retry budget allow a retry? */
function hasRetries({ guards }: DestinationRuntime): boolean {
  return guards.retryBudget !== undefined && budgetAllows(guards.retryBudget, NOW, false);
}

describe("the guards", () => {
  it("record the latency of successes, not the time that a dead target hung", () => {
    const { destination, attempt } = destinationWith({ breaker: false });
    attempt({ kind: "error", errorClass: "timeout", sent: true }, 10_000);
    attempt({ kind: "status", status: 404 }, 10_000);
    expect(destination.gates(NOW, false).estimatedCallMs).toBeUndefined();
    attempt({ kind: "success" }, 7);
    expect(destination.gates(NOW, false).estimatedCallMs).toBe(7);
  });

  it("count only retryable failures for the retry budget", () => {
    const retryBudget = { kind: "GRPC", maxTokens: 2, tokenRatio: 1 };
    const { destination, attempt } = destinationWith({ breaker: false, retryBudget });
    const mayRetry = () => hasRetries(destination);
    attempt({ kind: "status", status: 501 });
    expect(mayRetry()).toBe(true);
    attempt({ kind: "status", status: 500 });
    expect(mayRetry()).toBe(false);
  });

  it("count every response except a rejection for overload as accepted, for the throttle", () => {
    const attemptsWith = (status: number) => {
      const { destination, attempt } = destinationWith({
        breaker: false,
        rate: { throttle: true },
      });
      for (let n = 0; n < 10; n++)
        if (destination.wouldAdmit(false, NOW)) attempt({ kind: "status", status });
      return rejectShare(destination.guards.throttle as Throttle, NOW);
    };
    expect(attemptsWith(500)).toBe(0);
    expect(() => attemptsWith(503)).toThrow("no permit was to be had");
  });
});

describe("a Retry-After", () => {
  const asks = { kind: "status", status: 429, retryAfterMs: 60_000 } as const;

  it("holds every call, for at most the maximum of the document", () => {
    const retryAfterGate = { maxGateMs: 5000 };
    const { destination, attempt } = destinationWith({ retryAfterGate });
    attempt(asks);
    expect(destination.changedRow()).toMatchObject({ gateUntil: NOW + 5000 });
    expect(destination.takePermit(false, NOW + 4999)).toBeUndefined();
    expect(destination).toMatchObject({ heldBy: "retry-after", readyAt: NOW + 5000 });
    expect(destination.takePermit(false, NOW + 5000)).toBeDefined();
    // One call goes first, and the others follow one by one.
    expect(destination.takePermit(false, NOW + 5000)).toBeUndefined();
    expect(destination.heldBy).toBe("concurrency");
  });

  it("holds no other call where the document has no gate, and such a document lifts it", () => {
    const { destination, attempt } = destinationWith({ retryAfterGate: false });
    attempt(asks);
    expect(destination.changedRow()).toBeNull();
    expect(destination.takePermit(false, NOW)).toBeDefined();
    const other = destinationWith({});
    other.attempt(asks);
    const written = other.destination.changedRow();
    if (written) other.destination.recordWrite(written);
    expect(other.destination.takePermit(false, NOW)).toBeUndefined();
    other.change({ retryAfterGate: false });
    expect(other.destination.takePermit(false, NOW)).toBeDefined();
    expect(other.destination.changedRow()).toMatchObject({ gateUntil: 0 });
  });
});

describe("after a change of the document", () => {
  const parts = {
    retryBudget: { kind: "TOKENS", maxTokens: 100 },
    breaker: { failureRate: 0.9, minCalls: 100 },
    concurrency: { max: 10 },
    rate: { perSecond: 50, burst: 50, adaptive: true, throttle: true },
  } as const;
  const changes = {
    retryBudget: { retryBudget: { kind: "TOKENS", maxTokens: 99 } },
    breaker: { breaker: { failureRate: 0.8, minCalls: 100 } },
    concurrency: { concurrency: { max: 11 } },
    rate: { rate: { ...parts.rate, perSecond: 51 } },
    adaptiveRate: { rate: { ...parts.rate, adaptive: false } },
    throttle: { rate: { ...parts.rate, throttle: false } },
  } as const;
  const names = Object.keys(changes) as (keyof typeof changes)[];

  it.each(names)("only %s is replaced when only its options change", (name) => {
    const { destination, attempt, change } = destinationWith(parts);
    attempt({ kind: "success" }, 7);
    const before = { ...destination.guards };
    change({ ...parts, ...changes[name], description: "changed" });
    const { guards } = destination;
    expect(guards[name]).not.toBe(before[name]);
    for (const other of names) if (other !== name) expect(guards[other]).toBe(before[other]);
    expect(destination.gates(NOW, false).estimatedCallMs).toBe(7);
  });

  it("a spent budget stays spent, in whatever order the document lists its fields", () => {
    const retryBudget = { kind: "GRPC", maxTokens: 2, tokenRatio: 1 };
    const { destination, attempt, change } = destinationWith({ breaker: false, retryBudget });
    attempt({ kind: "status", status: 500 });
    expect(hasRetries(destination)).toBe(false);
    change({ retryBudget: { tokenRatio: 1, maxTokens: 2, kind: "GRPC" }, breaker: false });
    expect(hasRetries(destination)).toBe(false);
    change({ retryBudget: { ...retryBudget, maxTokens: 4 }, breaker: false });
    expect(hasRetries(destination)).toBe(true);
  });

  it("calls in flight still count, and an open circuit stays open, when both guards change", () => {
    const { breaker, concurrency } = parts;
    const { destination, change } = destinationWith({ breaker, concurrency });
    for (let n = 0; n < 3; n++) destination.takePermit(false, NOW);
    destination.adopt(
      { ...destination.row, version: 2, breakerState: "OPEN", openUntil: NOW + 5000, openCount: 1 },
      NOW,
    );
    change({ ...changes.breaker, ...changes.concurrency });
    expect(destination.guards.concurrency?.inFlight).toBe(3);
    expect(destination.guards.breaker).toMatchObject({ state: "OPEN", openUntil: NOW + 5000 });
  });
});
