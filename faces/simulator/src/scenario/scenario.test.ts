/** Scenario: rejects bad documents with helpful messages. */
import { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { simulate } from "../worlds/simulate.ts";
import { resolveCalls } from "./scenario.ts";
import { checkScenario, type ScenarioDocument } from "./scenario-document.ts";

const DAY_MS = 86_400_000;
const OPEN = { kind: "OPEN", ratePerSecond: 10 } as const;

function firstMessage(document: unknown): string | undefined {
  return checkScenario(document)[0]?.message;
}

describe("scenario", () => {
  it("rejects unknown fields with a suggestion, at any depth", () => {
    expect(firstMessage({ clients: OPEN, horizonMS: 5 })).toBe(
      'unknown field "horizonMS", did you mean "horizonMs"?',
    );
    expect(firstMessage({ clients: { ...OPEN, rate: 5 } })).toContain(
      'unknown field "clients.rate"',
    );
    expect(firstMessage({ clients: OPEN, tiers: [{ server: { capacity: 5 } }] })).toContain(
      '"tiers[0].server.capacity"',
    );
    expect(
      firstMessage({ clients: OPEN, tiers: [{ destination: { policy: { maxAttempt: 3 } } }] }),
    ).toContain(
      'tiers[0].destination: unknown field "policy.maxAttempt", did you mean "maxAttempts"?',
    );
  });

  it("quotes values out of range and names missing fields", () => {
    expect(firstMessage({ clients: { ...OPEN, ratePerSecond: 0 } })).toBe(
      "clients.ratePerSecond must be a number from 0.001 to 100000, got 0",
    );
    expect(firstMessage({})).toBe("clients must be given, got undefined");
    expect(firstMessage({ clients: { kind: "BUSY" } })).toContain(
      "clients.kind must be one of OPEN, CLOSED",
    );
    expect(firstMessage({ clients: { kind: "CLOSED" } })).toContain("clients.count must be given");
    expect(firstMessage({ clients: OPEN, tiers: [] })).toContain("a list of 1 to 8 entries");
    expect(firstMessage({ clients: OPEN, timeline: [{ kind: "OUTAGE", forMs: 5 }] })).toContain(
      "timeline[0].atMs must be given",
    );
    expect(
      firstMessage({ clients: OPEN, timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 5, tier: 3 }] }),
    ).toContain("below 1");
    expect(firstMessage({ world: "QUEUE", workers: 0 })).toContain(
      "workers must be a whole number from 1 to 1000",
    );
    expect(firstMessage({ world: "CONTENTION", policy: "payments" })).toContain(
      "policy must be one of default",
    );
    expect(firstMessage(5)).toContain("the scenario must be an object");
  });

  it("rejects phases that affect nothing", () => {
    const phase = { kind: "OUTAGE", atMs: 0, forMs: 5 };
    const sharded = {
      clients: OPEN,
      tiers: [{ server: { shards: 3 } }, { server: { shards: 2 } }],
    };
    const message = (rest: object) =>
      firstMessage({ ...sharded, timeline: [{ ...phase, ...rest }] });
    expect(message({ shard: 2 })).toBe("timeline[0].shard must be below 2, got 2");
    expect(message({ shard: 2, tier: 0 })).toBeUndefined();
    const closed = {
      clients: { kind: "CLOSED", count: 5 },
      timeline: [{ ...phase, kind: "SPIKE" }],
    };
    expect(firstMessage(closed)).toBe(
      'timeline[0].kind must be another kind for CLOSED clients, got "SPIKE"',
    );
  });

  it.each<[string, ScenarioDocument]>([
    ["100000000 calls", { clients: { kind: "OPEN", ratePerSecond: 100_000 }, horizonMs: DAY_MS }],
    ["100000000 calls", { clients: { kind: "CLOSED", count: 2_000_000, jobs: 1_000_000 } }],
    [
      "100000 sets of guards",
      {
        clients: { kind: "CLOSED", count: 2_000_000, jobs: 1 },
        tiers: [{ destination: { retryBudget: {} } }],
      },
    ],
    [
      "100000 sets of guards",
      {
        clients: { kind: "OPEN", ratePerSecond: 1, count: 1000 },
        tiers: [{ destination: { breaker: {} }, breakerPerShard: true, server: { shards: 1000 } }],
      },
    ],
  ])("is rejected before it uses up the memory: over %s", (what, document) => {
    expect(() => simulate(document)).toThrow(`the scenario has over ${what}`);
  });

  it("throws an error with all problems", () => {
    const run = () =>
      simulate({ clients: { kind: "OPEN", ratePerSecond: -1 }, horizonMs: 0 } as never);
    expect(run).toThrow(DocumentError);
    expect(run).toThrow("horizonMs must be");
  });

  it("has no guards by default", () => {
    const { tiers } = resolveCalls({ clients: OPEN });
    expect(tiers).toHaveLength(1);
    expect(tiers[0]?.destination.retryBudget).toBeUndefined();
    expect(tiers[0]?.destination.policy.maxAttempts).toBe(5);
  });
});
