/**
 * Scenarios of the package, with the ladder of mitigations. Each is also a JSON file in
 * `scenarios/`, to copy and change; a test compares the two.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
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
    "10,000 clients with one job each; the database is down for 8 s. Full jitter.",
    {},
  ),
  fleet(
    "failover-no-jitter",
    "The same without jitter: all clients arrive at one instant, four times.",
    { jitterType: "NONE" },
  ),
  fleet(
    "failover-decorrelated",
    "The same with decorrelated jitter: a quarter of the clients give up.",
    {
      jitterType: "DECORRELATED",
    },
  ),
  open("open-unbounded", "Open traffic whose delayed retries overload a queue without a bound."),
  open(
    "open-bounded",
    "The same with a queue of half a second: early refusals save nearly all calls.",
    500,
  ),
  {
    name: "failover-warm-up",
    description: "A failover that loses the queue; afterwards the capacity returns over 10 s.",
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
      "Capacity drops to a fifth for 10 s. It comes back, but four attempts per call keep it busy with abandoned work.",
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
    description: "A third of the responses are errors for 20 s: a small budget is enough.",
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
      "50 % more load than the server accepts for 20 s: it responds with 429 and a Retry-After of 2 s.",
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
      "Responses take twenty times as long for 15 s: timeouts and an adaptive concurrency limit.",
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
    description: "Three times the load for 5 s against a bounded queue that sends Retry-After.",
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
    description:
      "One shard of three is down; with a breaker per shard the other two still get calls.",
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
    description: "Hedging at p95 within a budget cuts a long tail.",
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
    description: "A visibility timeout shorter than the slowest work delivers messages twice.",
    ratePerSecond: 20,
    workers: 16,
    work: { kind: "LOGNORMAL", medianMs: 200, sigma: 1 },
    visibilityMs: 1000,
    maxReceives: 5,
  },
  {
    world: "QUEUE",
    name: "queue-commit",
    description: "Work is committed every 5 s; after a crash, uncommitted work is repeated.",
    ratePerSecond: 20,
    work: { kind: "EXPONENTIAL", meanMs: 50 },
    commitMs: 5000,
    crashesPerSecond: 0.2,
    visibilityMs: 60_000,
  },
  {
    world: "QUEUE",
    name: "queue-poison",
    description: "One message in fifty can never succeed: after five receives it is a dead letter.",
    ratePerSecond: 20,
    work: { kind: "EXPONENTIAL", meanMs: 50 },
    poisonShare: 0.02,
    failureRate: 0.1,
    policy: { maxAttempts: 10, initialDelayMs: 1000, totalBudgetMs: 600_000 },
  },
];

// Ladder: scenarios that add the usual mitigations of a retry storm one by one. In each, two layers
// retry, and the capacity of the server drops to a fifth for 10 s.

/** The mitigations of one rung. Each rung keeps those of the rungs before it. */
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
    description: "Full jitter: it spreads the retries but does not reduce them.",
    jitter: true,
  },
  {
    ...OFF,
    name: "ladder-2-budget",
    description: "Plus a retry budget of 10 % at each layer.",
    jitter: true,
    budget: true,
  },
  {
    ...OFF,
    name: "ladder-3-breaker",
    description: "Plus a breaker at each layer.",
    jitter: true,
    budget: true,
    breaker: true,
  },
  {
    ...OFF,
    name: "ladder-4-concurrency",
    description: "Plus an adaptive limit on calls in progress.",
    jitter: true,
    budget: true,
    breaker: true,
    concurrency: true,
  },
  {
    name: "ladder-5-one-layer",
    description:
      "And only the outer layer retries: the other limits already left the inner one nothing to retry.",
    jitter: true,
    budget: true,
    breaker: true,
    concurrency: true,
    oneLayer: true,
  },
  {
    ...OFF,
    name: "ladder-one-layer-alone",
    description: "Only one layer retries; no other mitigation.",
    oneLayer: true,
  },
];

function rungPolicy(rung: Rung, maxAttempts: number, attemptTimeoutMs: number): PolicyDocument {
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

function rungDestination(
  rung: Rung,
  maxAttempts: number,
  attemptTimeoutMs: number,
): DestinationDocument {
  return {
    policy: rungPolicy(rung, maxAttempts, attemptTimeoutMs),
    ...(rung.budget && { retryBudget: { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } }),
    ...(rung.breaker && {
      breaker: { windowMs: 5000, minCalls: 100, openMs: 2000, maxOpenMs: 5000 },
    }),
  };
}

/** 150 calls per second at a capacity of 250: no problems before the capacity drops. */
function rungScenario(rung: Rung): CallsDocument {
  const inner = rungDestination(rung, rung.oneLayer ? 1 : 3, 1000);
  return {
    name: rung.name,
    description: rung.description,
    horizonMs: 80_000,
    clients: { kind: "OPEN", count: 10, ratePerSecond: 150 },
    guards: "SHARED",
    tiers: [
      { name: "gateway", destination: rungDestination(rung, 3, 4000), server: { hop: 1 } },
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

const ladder: readonly CallsDocument[] = RUNGS.map(rungScenario);

/** All scenarios by name. */
export const scenarios: Readonly<Record<string, ScenarioDocument>> = Object.fromEntries(
  [...failovers, ...degradations, ...ladder, ...otherWorlds].map((one) => [one.name, one]),
);
