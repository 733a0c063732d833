/**
 * Guard cases: random destination documents with random traffic, each from one seed. Every guard
 * occurs alone and in pairs, with both kinds of patience.
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
  /** When each call arrives, in whole ms from the start; ascending. */
  readonly arrivals: readonly number[];
  outcomeOf(call: number, attempt: number, copy: number): ScriptedEnd;
}

/** No attempt takes longer. Timeouts are coarse in the library, so none may be reached. */
export const MAX_CALL_MS = 90;

/** Draws from a stream, by what is wanted. */
interface Draws {
  whole(min: number, max: number): number;
  oneOf<T>(...values: readonly T[]): T;
  chance(share: number): boolean;
}

function drawsOf(random: Random): Draws {
  const whole = (min: number, max: number) => min + Math.floor(random.next() * (max - min + 1));
  return {
    whole,
    oneOf: <T>(...values: readonly T[]) => values[whole(0, values.length - 1)] as T,
    chance: (share) => random.next() < share,
  };
}

const GUARDS: Readonly<Record<string, (draws: Draws) => DestinationDocument>> = {
  retryBudget: (draws) => ({ retryBudget: budgetOf(draws) }),
  breaker: ({ whole, oneOf }) => ({
    breaker: {
      failureRate: oneOf(0.3, 0.5, 0.8),
      minCalls: whole(2, 8),
      windowMs: oneOf(1000, 5000, 10_000),
      openMs: whole(100, 3000),
      halfOpenProbes: whole(1, 3),
      ...oneOf({}, { slowCallMs: 60, slowRate: 0.5 }),
    },
  }),
  concurrency: (draws) => ({ concurrency: concurrencyOf(draws) }),
  rate: ({ whole, oneOf }) => ({
    rate: { perSecond: oneOf(0.5, 2, 7, 40), burst: whole(1, 5) },
  }),
  adaptive: () => ({ rate: { adaptive: true } }),
  throttle: ({ oneOf }) => ({ rate: { throttle: { k: oneOf(1, 1.1, 2), windowMs: 5000 } } }),
  hedge: ({ whole, oneOf }) => ({
    hedge: { after: oneOf<number | "p50" | "p95">(whole(1, 60), "p50", "p95"), max: whole(1, 2) },
  }),
  retryAfterGate: ({ whole }) => ({ retryAfterGate: { maxGateMs: whole(100, 4000) } }),
};

const NAMES = Object.keys(GUARDS);

/** Alone, then every pair, then again: the seed chooses the numbers. */
const COMBINATIONS: readonly (readonly string[])[] = NAMES.flatMap((one, index) => [
  [one],
  ...NAMES.slice(index + 1).map((other) => [one, other]),
]);

function budgetOf({ whole, oneOf }: Draws): RetryBudgetDocument {
  return oneOf<RetryBudgetDocument>(
    { ratio: oneOf(0, 0.1, 0.5), minPerSecond: oneOf(0, 0.5, 1), windowMs: oneOf(1000, 10_000) },
    { kind: "TOKENS", maxTokens: whole(14, 60), costPerRetry: 10, costPerThrottle: 10 },
    { kind: "GRPC", maxTokens: whole(2, 6), tokenRatio: 0.5 },
  );
}

function concurrencyOf({ whole, oneOf, chance }: Draws): Partial<ConcurrencyOptions> {
  const max = whole(1, 6);
  return {
    algorithm: oneOf("FIXED", "AIMD", "GRADIENT", "VEGAS"),
    max,
    queue: oneOf(0, 2, 50),
    ...(chance(0.4) && { maxRetries: whole(0, max) }),
  };
}

/** Parts of `rate` from two guards are one part. */
function merged(one: DestinationDocument, other: DestinationDocument): DestinationDocument {
  const rate = one.rate && other.rate ? { rate: { ...one.rate, ...other.rate } } : {};
  return { ...one, ...other, ...rate };
}

function policyOf({ whole, oneOf }: Draws): PolicyDocument {
  const initialDelayMs = whole(1, 400);
  return {
    maxAttempts: whole(1, 5),
    initialDelayMs,
    maxDelayMs: initialDelayMs + whole(0, 2000),
    jitterType: oneOf("FULL", "EQUAL", "NONE", "DECORRELATED"),
    totalBudgetMs: whole(2500, 15_000),
    attemptTimeoutMs: 2000,
    // Longer than any attempt, so that the observed median never decides.
    minCallMs: MAX_CALL_MS + 1,
  };
}

/** Some at once, some in a trickle. */
function arrivalsOf({ whole, chance }: Draws): readonly number[] {
  const arrivals: number[] = [];
  let at = whole(0, 50);
  while (arrivals.length < 40) {
    const burst = chance(0.2) ? whole(2, 12) : 1;
    for (let n = 0; n < burst && arrivals.length < 40; n++) arrivals.push(at);
    at += whole(1, chance(0.1) ? 4000 : 300);
  }
  return arrivals;
}

export function guardCase(seed: number): GuardCase {
  const draws = drawsOf(seededRandom(seed).fork("case"));
  const names = COMBINATIONS[seed % COMBINATIONS.length] ?? [];
  const [first = {}, second = {}] = names.map((name) => GUARDS[name]?.(draws) ?? {});
  // A guard that is on by default is off unless the case is about it.
  const off = {
    retryBudget: false,
    breaker: false,
    concurrency: false,
    retryAfterGate: false,
  } as const;
  const document = { ...off, ...merged(first, second), policy: policyOf(draws) };
  const failures = draws.oneOf(0.1, 0.4, 0.8);
  // An outage in the middle of the calls.
  const downFrom = draws.whole(0, 40);
  const downTo = downFrom + draws.whole(0, 20);
  return {
    seed,
    document,
    patience: draws.oneOf("fail-fast", "wait"),
    arrivals: arrivalsOf(draws),
    outcomeOf(call, attempt, copy) {
      const own = drawsOf(seededRandom(seed).fork(`end/${call}/${attempt}/${copy}`));
      const isDown = call >= downFrom && call < downTo;
      const durationMs = own.whole(1, MAX_CALL_MS);
      return {
        outcome: own.chance(isDown ? 0.95 : failures) ? failure(own) : { kind: "success" },
        durationMs,
      };
    },
  };
}

function failure({ whole, oneOf, chance }: Draws): Outcome {
  const status = oneOf(500, 503, 503, 429, 429, 404);
  if (chance(0.15)) return { kind: "error", errorClass: "connect", sent: false };
  return statusOutcome(status, chance(0.3) ? whole(0, 3000) : undefined);
}
