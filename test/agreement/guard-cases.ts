/**
 * Guard cases: random destination documents with random traffic, one per seed. Every guard occurs
 * alone and in pairs, with both values of `patience`, and with many events at one instant.
 */
import {
  type ConcurrencyOptions,
  type DestinationDocument,
  type Outcome,
  type Patience,
  type PolicyDocument,
  type Random,
  type RetryBudgetDocument,
  seededRandom,
  statusOutcome,
} from "@redrive/core";

/** How one attempt ends, and after how long. */
export interface ScriptedEnd {
  readonly outcome: Outcome;
  readonly durationMs: number;
}

export interface GuardCase {
  readonly seed: number;
  readonly document: DestinationDocument;
  readonly patience: Patience;
  /** When each call arrives, in whole ms from the start, ascending. */
  readonly arrivals: readonly number[];
  outcomeOf(call: number, attempt: number, copy: number): ScriptedEnd;
}

/** Maximum duration of an attempt. No attempt times out: timeouts are coarse in the library. */
export const MAX_CALL_MS = 90;

/** Draws values from a random stream. */
interface Draws {
  integer(min: number, max: number): number;
  oneOf<T>(...values: readonly T[]): T;
  happens(share: number): boolean;
}

function drawsOf(random: Random): Draws {
  const integer = (min: number, max: number) => min + Math.floor(random.next() * (max - min + 1));
  return {
    integer,
    oneOf: <T>(...values: readonly T[]) => values[integer(0, values.length - 1)] as T,
    happens: (share) => random.next() < share,
  };
}

const GUARDS: Readonly<Record<string, (draws: Draws) => DestinationDocument>> = {
  retryBudget: (draws) => ({ retryBudget: budgetOf(draws) }),
  breaker: ({ integer, oneOf }) => ({
    breaker: {
      failureRate: oneOf(0.3, 0.5, 0.8),
      minCalls: integer(2, 8),
      windowMs: oneOf(1000, 5000, 10_000),
      openMs: integer(100, 3000),
      halfOpenProbes: integer(1, 3),
      ...oneOf({}, { slowCallMs: 60, slowRate: 0.5 }),
    },
  }),
  concurrency: (draws) => ({ concurrency: concurrencyOf(draws) }),
  rate: ({ integer, oneOf }) => ({
    rate: { perSecond: oneOf(0.5, 2, 7, 40), burst: integer(1, 5) },
  }),
  adaptive: () => ({ rate: { adaptive: true } }),
  throttle: ({ oneOf }) => ({ rate: { throttle: { k: oneOf(1, 1.1, 2), windowMs: 5000 } } }),
  hedge: ({ integer, oneOf }) => ({
    hedge: {
      after: oneOf<number | "p50" | "p95">(integer(1, 60), "p50", "p95"),
      max: integer(1, 2),
    },
  }),
  retryAfterGate: ({ integer }) => ({ retryAfterGate: { maxGateMs: integer(100, 4000) } }),
};

const NAMES = Object.keys(GUARDS);

/** Each guard alone and in every pair. Seeds cycle through them and draw the numbers. */
const COMBINATIONS: readonly (readonly string[])[] = NAMES.flatMap((one, index) => [
  [one],
  ...NAMES.slice(index + 1).map((other) => [one, other]),
]);

function budgetOf({ integer, oneOf }: Draws): RetryBudgetDocument {
  return oneOf<RetryBudgetDocument>(
    { ratio: oneOf(0, 0.1, 0.5), minPerSecond: oneOf(0, 0.5, 1), windowMs: oneOf(1000, 10_000) },
    { kind: "TOKENS", maxTokens: integer(14, 60), costPerRetry: 10, costPerThrottle: 10 },
    { kind: "GRPC", maxTokens: integer(2, 6), tokenRatio: 0.5 },
  );
}

function concurrencyOf({ integer, oneOf, happens }: Draws): Partial<ConcurrencyOptions> {
  const max = integer(1, 6);
  return {
    algorithm: oneOf("FIXED", "AIMD", "GRADIENT", "VEGAS"),
    max,
    queue: oneOf(0, 2, 50),
    ...(happens(0.4) && { maxRetries: integer(0, max) }),
  };
}

/** Merges two documents, including the fields of `rate`. */
function merged(one: DestinationDocument, other: DestinationDocument): DestinationDocument {
  const rate = one.rate && other.rate ? { rate: { ...one.rate, ...other.rate } } : {};
  return { ...one, ...other, ...rate };
}

function policyOf({ integer, oneOf }: Draws): PolicyDocument {
  const initialDelayMs = integer(1, 400);
  return {
    maxAttempts: integer(1, 5),
    initialDelayMs,
    maxDelayMs: initialDelayMs + integer(0, 2000),
    jitterType: oneOf("FULL", "EQUAL", "NONE", "DECORRELATED"),
    totalBudgetMs: integer(2500, 15_000),
    attemptTimeoutMs: 2000,
    // Longer than any attempt, so that the observed median has no effect.
    minCallMs: MAX_CALL_MS + 1,
  };
}

/** Bursts and single calls. */
function arrivalsOf({ integer, happens }: Draws): readonly number[] {
  const arrivals: number[] = [];
  let at = integer(0, 50);
  while (arrivals.length < 40) {
    const burst = happens(0.2) ? integer(2, 12) : 1;
    for (let n = 0; n < burst && arrivals.length < 40; n++) arrivals.push(at);
    at += integer(1, happens(0.1) ? 4000 : 300);
  }
  return arrivals;
}

/** Two of three cases have many events at one instant. */
export function guardCase(seed: number): GuardCase {
  const given = anyCase(seed);
  const kind = Math.floor(seed / COMBINATIONS.length) % 3;
  if (kind === 0) return given;
  return kind === 1 ? onGrid(given, 10) : withWaitsOnGrid(onGrid(given, 30), 30);
}

/** Calls arrive and attempts end at multiples of `gridMs`, which divides `MAX_CALL_MS`. */
function onGrid(given: GuardCase, gridMs: number): GuardCase {
  return {
    ...given,
    arrivals: given.arrivals.map((at) => upTo(gridMs, at)),
    outcomeOf(call, attempt, copy) {
      const end = given.outcomeOf(call, attempt, copy);
      return { ...end, durationMs: upTo(gridMs, end.durationMs) };
    },
  };
}

/** Retries, hedges and deadlines are due there, too. */
function withWaitsOnGrid(given: GuardCase, gridMs: number): GuardCase {
  const { hedge, policy } = given.document;
  const { initialDelayMs = 1, maxDelayMs = 1, totalBudgetMs = 1 } = policy as PolicyDocument;
  const after = hedge ? hedge.after : undefined;
  return {
    ...given,
    document: {
      ...given.document,
      ...(typeof after === "number" && { hedge: { ...hedge, after: upTo(gridMs, after) } }),
      policy: {
        ...(policy as PolicyDocument),
        jitterType: "NONE",
        initialDelayMs: upTo(gridMs, initialDelayMs),
        maxDelayMs: upTo(gridMs, maxDelayMs),
        totalBudgetMs: upTo(gridMs, totalBudgetMs),
      },
    },
  };
}

function upTo(gridMs: number, ms: number): number {
  return Math.ceil(ms / gridMs) * gridMs;
}

function anyCase(seed: number): GuardCase {
  const draws = drawsOf(seededRandom(seed).fork("case"));
  const names = COMBINATIONS[seed % COMBINATIONS.length] ?? [];
  const [first = {}, second = {}] = names.map((name) => GUARDS[name]?.(draws) ?? {});
  // Guards that are on by default are off unless the case tests them.
  const off = {
    retryBudget: false,
    breaker: false,
    concurrency: false,
    retryAfterGate: false,
  } as const;
  const document = { ...off, ...merged(first, second), policy: policyOf(draws) };
  const failures = draws.oneOf(0.1, 0.4, 0.8);
  // The calls during an outage.
  const downFrom = draws.integer(0, 40);
  const downTo = downFrom + draws.integer(0, 20);
  return {
    seed,
    document,
    patience: draws.oneOf("fail-fast", "wait"),
    arrivals: arrivalsOf(draws),
    outcomeOf(call, attempt, copy) {
      const own = drawsOf(seededRandom(seed).fork(`end/${call}/${attempt}/${copy}`));
      const isDown = call >= downFrom && call < downTo;
      const durationMs = own.integer(1, MAX_CALL_MS);
      return {
        outcome: own.happens(isDown ? 0.95 : failures) ? failure(own) : { kind: "success" },
        durationMs,
      };
    },
  };
}

function failure({ integer, oneOf, happens }: Draws): Outcome {
  const status = oneOf(500, 503, 503, 429, 429, 404);
  if (happens(0.15)) return { kind: "error", errorClass: "connect", sent: false };
  return statusOutcome(status, happens(0.3) ? integer(0, 3000) : undefined);
}
