/** Overload: what a full server answers, and that policies and budgets hear it. */
import type { DestinationDocument } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { checkScenario } from "../../scenario/check-scenario.ts";
import type { CallsDocument, ServerDocument } from "../../scenario/scenario-document.ts";
import { simulate } from "../../simulate/simulate.ts";

/** Ten clients at once, one place: nine are refused. */
function crowd(destination: DestinationDocument, server: ServerDocument): CallsDocument {
  return {
    clients: { kind: "CLOSED", count: 10, jobs: 1 },
    guards: "SHARED",
    tiers: [{ destination, server: { capacityPerSecond: 1000, queueMs: 0, ...server } }],
  };
}

const TWICE = { maxAttempts: 2, jitterType: "NONE", initialDelayMs: 100 } as const;

describe("overload", () => {
  it("with a 429 is answered by the policy's throttling delay, with a 503 by its own", () => {
    const policy = { ...TWICE, throttleDelayMs: 5000 };
    const meanWait = (server: ServerDocument) => simulate(crowd({ policy }, server)).meanWaitMs;
    expect(meanWait({ overload: "429" })).toBe(4500);
    expect(meanWait({ overload: "503" })).toBe(90);
    expect(meanWait({})).toBe(90);
  });

  it("is never retried earlier than its Retry-After, whatever the status", () => {
    for (const overload of ["429", "503"] as const) {
      const server = { overload, retryAfterMs: 3000 };
      const { meanWaitMs } = simulate(crowd({ policy: TWICE }, server));
      expect(meanWaitMs).toBeGreaterThanOrEqual(2700);
      const ignoring = simulate(crowd({ policy: { ...TWICE, respectRetryAfter: false } }, server));
      expect(ignoring.meanWaitMs).toBe(90);
    }
  });

  it("with a 429 costs what the budget asks for a throttled retry", () => {
    const retryBudget = { kind: "TOKENS", maxTokens: 20, costPerRetry: 10, costPerThrottle: 5 };
    const retries = (overload: "429" | "503") => {
      const { attempts, calls } = simulate(
        crowd({ policy: TWICE, retryBudget: { ...retryBudget, kind: "TOKENS" } }, { overload }),
      );
      return attempts - calls;
    };
    expect([retries("429"), retries("503")]).toEqual([4, 2]);
  });

  it("is refused a status that is none", () => {
    const [problem] = checkScenario(crowd({}, { overload: "500" as "503" }));
    expect(problem?.message).toMatch(/tiers\[0\]\.server\.overload must be one of 503, 429/);
  });
});
