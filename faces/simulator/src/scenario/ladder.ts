/**
 * Ladder: the usual mitigations of a retry storm, switched on one by one over the same
 * trouble: two layers that both retry, and a server whose capacity drops to a fifth for 10 s.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import type { CallsDocument } from "./scenario-document.ts";

/** What is on at a rung; every rung keeps what the ones before it switched on. */
interface Rung {
  readonly name: string;
  readonly description: string;
  readonly jitter: boolean;
  readonly budget: boolean;
  readonly breaker: boolean;
  readonly concurrency: boolean;
  readonly oneLayer: boolean;
}

const OFF = { jitter: false, budget: false, breaker: false, concurrency: false, oneLayer: false };

const RUNGS: readonly Rung[] = [
  {
    ...OFF,
    name: "ladder-0-plain",
    description: "Two layers, three attempts each, no mitigation.",
  },
  {
    ...OFF,
    name: "ladder-1-jitter",
    description: "Bounded retries with full jitter: spread, not fewer.",
    jitter: true,
  },
  {
    ...OFF,
    name: "ladder-2-budget",
    description: "And a retry budget of 10 % at each layer.",
    jitter: true,
    budget: true,
  },
  {
    ...OFF,
    name: "ladder-3-breaker",
    description: "And a breaker at each layer.",
    jitter: true,
    budget: true,
    breaker: true,
  },
  {
    ...OFF,
    name: "ladder-4-concurrency",
    description: "And an adaptive limit on calls in progress.",
    jitter: true,
    budget: true,
    breaker: true,
    concurrency: true,
  },
  {
    name: "ladder-5-one-layer",
    description:
      "And only the outer layer retries: here the limits before it already leave the inner one nothing to retry.",
    jitter: true,
    budget: true,
    breaker: true,
    concurrency: true,
    oneLayer: true,
  },
  {
    ...OFF,
    name: "ladder-one-layer-alone",
    description: "Only one layer retries, and nothing else is done.",
    oneLayer: true,
  },
];

function policyOf(rung: Rung, maxAttempts: number, attemptTimeoutMs: number): PolicyDocument {
  return {
    maxAttempts,
    initialDelayMs: 100,
    maxDelayMs: 2000,
    jitterType: rung.jitter ? "FULL" : "NONE",
    attemptTimeoutMs,
    connectTimeoutMs: Math.min(1000, attemptTimeoutMs),
    totalBudgetMs: 30_000,
  };
}

function destinationOf(
  rung: Rung,
  maxAttempts: number,
  attemptTimeoutMs: number,
): DestinationDocument {
  return {
    policy: policyOf(rung, maxAttempts, attemptTimeoutMs),
    ...(rung.budget && { retryBudget: { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } }),
    ...(rung.breaker && {
      breaker: { windowMs: 5000, minCalls: 100, openMs: 2000, maxOpenMs: 5000 },
    }),
  };
}

/** 150 calls a second at 250: quiet until the dip. */
function scenarioOf(rung: Rung): CallsDocument {
  const inner = destinationOf(rung, rung.oneLayer ? 1 : 3, 1000);
  return {
    name: rung.name,
    description: rung.description,
    horizonMs: 80_000,
    clients: { kind: "OPEN", count: 10, ratePerSecond: 150 },
    guards: "SHARED",
    tiers: [
      { name: "gateway", destination: destinationOf(rung, 3, 4000), server: { hop: 1 } },
      {
        name: "service",
        destination: {
          ...inner,
          ...(rung.concurrency && { concurrency: { algorithm: "GRADIENT", max: 125 } }),
        },
        server: { capacityPerSecond: 250, service: "EXPONENTIAL", hop: 1 },
      },
    ],
    timeline: [{ kind: "CAPACITY", factor: 0.2, atMs: 20_000, forMs: 10_000 }],
  };
}

export const ladder: readonly CallsDocument[] = RUNGS.map(scenarioOf);
