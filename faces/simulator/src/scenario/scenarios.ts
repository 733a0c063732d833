/**
 * Scenarios that ship. Each is also a JSON file of its name in `scenarios/`, to copy and change; a
 * test holds the two equal. The mitigation ladder has a file of its own.
 */
import type { PolicyDocument } from "@redrive/core";
import { ladder } from "./ladder.ts";
import type {
  CallsDocument,
  ContentionDocument,
  QueueDocument,
  ScenarioDocument,
} from "./scenario-document.ts";

const FLEET_POLICY: PolicyDocument = {
  maxAttempts: 12,
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  totalBudgetMs: 600_000,
};

function fleet(name: string, description: string, policy: PolicyDocument): CallsDocument {
  return {
    name,
    description,
    horizonMs: 120_000,
    clients: { kind: "CLOSED", count: 10_000, jobs: 1 },
    tiers: [
      {
        name: "database",
        destination: { policy: { ...FLEET_POLICY, ...policy } },
        server: { capacityPerSecond: 2000, queueMs: 1000 },
      },
    ],
    timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 8000 }],
  };
}

const OPEN_POLICY: PolicyDocument = {
  maxAttempts: 4,
  initialDelayMs: 4000,
  maxDelayMs: 60_000,
  totalBudgetMs: 120_000,
  attemptTimeoutMs: 1000,
  connectTimeoutMs: 1000,
};

function open(name: string, description: string, queueMs?: number): CallsDocument {
  return {
    name,
    description,
    horizonMs: 60_000,
    clients: { kind: "OPEN", count: 40, ratePerSecond: 200 },
    tiers: [
      {
        name: "database",
        destination: { policy: OPEN_POLICY },
        server: {
          capacityPerSecond: 300,
          service: "EXPONENTIAL",
          ...(queueMs !== undefined && { queueMs }),
        },
      },
    ],
    timeline: [{ kind: "OUTAGE", atMs: 5000, forMs: 8000 }],
  };
}

const failovers: readonly CallsDocument[] = [
  fleet(
    "failover",
    "10,000 clients with one job each; the database is away for 8 s. Full jitter.",
    {},
  ),
  fleet(
    "failover-no-jitter",
    "The same without jitter: all clients arrive at one instant, four times over.",
    { jitterType: "NONE" },
  ),
  fleet("failover-decorrelated", "The same with decorrelated jitter: a quarter gives up.", {
    jitterType: "DECORRELATED",
  }),
  open(
    "open-unbounded",
    "Open traffic whose deferred retries come back to a queue without bound and tip it over.",
  ),
  open(
    "open-bounded",
    "The same with a queue of half a second: refusing early saves nearly all.",
    500,
  ),
  {
    name: "failover-warm-up",
    description: "A failover that loses the queue and comes back cold: capacity returns over 10 s.",
    clients: { kind: "OPEN", count: 20, ratePerSecond: 150 },
    tiers: [
      {
        name: "database",
        destination: {
          policy: { maxAttempts: 5, initialDelayMs: 200 },
          retryBudget: { ratio: 0.2 },
        },
        server: {
          capacityPerSecond: 300,
          queueMs: 500,
          latency: { kind: "LOGNORMAL", medianMs: 8, sigma: 0.5 },
        },
      },
    ],
    timeline: [{ kind: "FAILOVER", atMs: 10_000, forMs: 5000, warmMs: 10_000 }],
  },
];

const degradations: readonly CallsDocument[] = [
  {
    name: "metastable",
    description:
      "Capacity drops to a fifth for 10 s. It comes back, but four attempts a call keep it busy with work nobody waits for.",
    clients: { kind: "OPEN", count: 20, ratePerSecond: 700 },
    tiers: [
      {
        name: "service",
        destination: {
          policy: {
            maxAttempts: 4,
            initialDelayMs: 100,
            maxDelayMs: 10_000,
            attemptTimeoutMs: 1000,
            connectTimeoutMs: 1000,
          },
        },
        server: { capacityPerSecond: 1000, service: "EXPONENTIAL" },
      },
    ],
    timeline: [{ kind: "CAPACITY", factor: 0.2, atMs: 10_000, forMs: 10_000 }],
  },
  {
    name: "brownout",
    description: "A third of the answers is an error for 20 s: a small budget is enough.",
    clients: { kind: "OPEN", count: 10, ratePerSecond: 100 },
    tiers: [
      {
        destination: { policy: { maxAttempts: 3 }, retryBudget: { ratio: 0.2 } },
        server: { hop: { kind: "EXPONENTIAL", meanMs: 5 } },
      },
    ],
    timeline: [{ kind: "PARTIAL", share: 0.33, atMs: 20_000, forMs: 20_000 }],
  },
  {
    name: "rate-limited",
    description:
      "Half more load than the server takes for 20 s: it answers 429 and asks for 2 s (Retry-After).",
    clients: { kind: "OPEN", count: 20, ratePerSecond: 100 },
    tiers: [
      {
        destination: {
          policy: { maxAttempts: 5, throttleDelayMs: 1000 },
          retryBudget: { kind: "TOKENS" },
        },
        server: {
          capacityPerSecond: 150,
          queueMs: 200,
          overload: "429",
          retryAfterMs: 2000,
          hop: 2,
        },
      },
    ],
    timeline: [{ kind: "SPIKE", factor: 2.25, atMs: 10_000, forMs: 20_000 }],
  },
  {
    name: "slow-dependency",
    description:
      "Answers take twenty times as long for 15 s: timeouts and an adaptive concurrency limit.",
    clients: { kind: "OPEN", ratePerSecond: 200 },
    tiers: [
      {
        destination: {
          policy: {
            maxAttempts: 3,
            attemptTimeoutMs: 500,
            connectTimeoutMs: 500,
            totalBudgetMs: 5000,
          },
          retryBudget: { ratio: 0.1 },
          concurrency: { algorithm: "AIMD", max: 100, queue: 100 },
        },
        server: { latency: { kind: "LOGNORMAL", medianMs: 40, sigma: 0.5 } },
      },
    ],
    timeline: [{ kind: "SLOW", factor: 20, atMs: 20_000, forMs: 15_000 }],
  },
  {
    name: "load-spike",
    description:
      "Three times the load for 5 s against a bounded queue that hints with Retry-After.",
    clients: { kind: "OPEN", count: 10, ratePerSecond: 100 },
    tiers: [
      {
        destination: { policy: { maxAttempts: 4, initialDelayMs: 500 } },
        server: {
          capacityPerSecond: 200,
          service: "EXPONENTIAL",
          queueMs: 300,
          retryAfterMs: 2000,
        },
      },
    ],
    timeline: [{ kind: "SPIKE", factor: 3, atMs: 20_000, forMs: 5000 }],
  },
  {
    name: "one-shard-down",
    description: "One shard of three is down; a breaker per shard keeps the other two.",
    clients: { kind: "OPEN", count: 20, ratePerSecond: 280 },
    tiers: [
      {
        destination: { policy: { maxAttempts: 1 }, breaker: { minCalls: 20, windowMs: 2000 } },
        breakerPerShard: true,
        server: { shards: 3, hop: 5 },
      },
    ],
    timeline: [{ kind: "OUTAGE", atMs: 10_000, forMs: 40_000, shard: 0 }],
  },
  {
    name: "hedged-reads",
    description: "A long tail cut by a second copy at p95, within a budget.",
    clients: { kind: "OPEN", ratePerSecond: 200 },
    tiers: [
      {
        destination: {
          policy: { maxAttempts: 2 },
          retryBudget: { ratio: 0.1 },
          hedge: { after: "p95" },
        },
        server: { latency: { kind: "LOGNORMAL", medianMs: 20, sigma: 1 } },
      },
    ],
  },
];

const otherWorlds: readonly (ContentionDocument | QueueDocument)[] = [
  {
    world: "CONTENTION",
    name: "contention",
    description: "100 clients write one row (Brooker 2015) with full jitter.",
    clientCount: 100,
    policy: { initialDelayMs: 10, maxDelayMs: 2000, maxAttempts: 100, totalBudgetMs: 600_000 },
  },
  {
    world: "QUEUE",
    name: "queue-visibility",
    description: "A visibility timeout shorter than the slowest work hands messages out twice.",
    ratePerSecond: 20,
    workers: 16,
    work: { kind: "LOGNORMAL", medianMs: 200, sigma: 1 },
    visibilityMs: 1000,
    maxReceives: 5,
  },
  {
    world: "QUEUE",
    name: "queue-commit",
    description:
      "Work is committed every 5 s; a worker that crashes repeats what it had not committed.",
    ratePerSecond: 20,
    work: { kind: "EXPONENTIAL", meanMs: 50 },
    commitMs: 5000,
    crashesPerSecond: 0.2,
    visibilityMs: 60_000,
  },
  {
    world: "QUEUE",
    name: "queue-poison",
    description: "One message in fifty can never succeed: after five receives it is set aside.",
    ratePerSecond: 20,
    work: { kind: "EXPONENTIAL", meanMs: 50 },
    poisonShare: 0.02,
    failureRate: 0.1,
    policy: { maxAttempts: 10, initialDelayMs: 1000, totalBudgetMs: 600_000 },
  },
];

/** By name. */
export const scenarios: Readonly<Record<string, ScenarioDocument>> = Object.fromEntries(
  [...failovers, ...degradations, ...ladder, ...otherWorlds].map((one) => [one.name, one]),
);
