/** Tests of what a destination's guards learn of an attempt: the same as in the library. */
import { type Outcome, rejectShare, resolve, seededRandom, type Throttle } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { GuardedDestination } from "./guarded-destination.ts";

const NOW = 1_000_000;
const policy = resolve({});

function destinationWith(document: object) {
  const place = { tenantId: "t", name: "d" };
  const destination = new GuardedDestination(seededRandom(1), place, NOW, undefined);
  const row = { ...destination.row, version: 1, document: JSON.stringify(document) };
  destination.adopt(row, NOW);
  const attempt = (outcome: Outcome, durationMs = 10) => {
    const permit = destination.take(false, NOW);
    if (permit === undefined) throw new Error("no permit was to be had");
    destination.leave(permit, NOW, policy, outcome, durationMs);
  };
  return { destination, attempt };
}

describe("what the guards learn", () => {
  it("of how long a call takes is what successes took, not how long a dead target hung", () => {
    const { destination, attempt } = destinationWith({ breaker: false });
    attempt({ kind: "error", errorClass: "timeout", sent: true }, 10_000);
    attempt({ kind: "status", status: 404 }, 10_000);
    expect(destination.gates(NOW, false).estimatedCallMs).toBeUndefined();
    attempt({ kind: "success" }, 7);
    expect(destination.gates(NOW, false).estimatedCallMs).toBe(7);
  });

  it("of failures, for the budget, is only those that are worth repeating", () => {
    const retryBudget = { kind: "GRPC", maxTokens: 2, tokenRatio: 1 };
    const { destination, attempt } = destinationWith({ breaker: false, retryBudget });
    const mayRetry = () => destination.wouldAdmit(true, NOW);
    attempt({ kind: "status", status: 501 });
    expect(mayRetry()).toBe(true);
    attempt({ kind: "status", status: 500 });
    expect(mayRetry()).toBe(false);
  });

  it("of what was accepted, for the throttle, is every answer that is no refusal for overload", () => {
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
