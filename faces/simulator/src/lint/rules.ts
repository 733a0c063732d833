/** Rules of lint: each finds one problem of the waits, of the end of the retries or of the guards. */
import {
  type CompiledPolicy,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  hedgeQuantile,
  type PolicyDocument,
} from "@redrive/core";
import { drawsOf, nextDraw } from "../engine/draws.ts";
import { coverageOf } from "../schedule/coverage.ts";
import { herd } from "../schedule/herd.ts";
import { nextWait, waitsOf } from "../schedule/waits.ts";
import { MAX_SURVIVAL_CALLS, survival } from "../worlds/simulate.ts";
import { MIN_HERD, type Rule, SAMPLES, sampleCalls, type Target } from "./rule.ts";

// Wait rules: find problems of the waits between attempts.

const HOUR_MS = 3_600_000;

function retries({ policy }: Target): boolean {
  return policy.maxAttempts > 1;
}

function lastCeiling({ policy, compiled }: Target): number {
  return compiled.ceilingMs(Math.max(1, policy.maxAttempts - 1));
}

/** The largest share of 2,000 clients in one window of a tenth of the first ceiling. */
function herdShare(target: Target, change: object = {}): number {
  const { policy, compiled } = target;
  const windowMs = Math.max(1, Math.floor(compiled.ceilingMs(1) / 10));
  return herd({ ...policy, ...change } as unknown as PolicyDocument, {
    clients: 2000,
    windowMs,
    seed: 1,
  }).peak.share;
}

const noWait: Rule = {
  id: "no-wait",
  problem: "Retries without a delay overload a failing service",
  check(target) {
    if (!retries(target) || lastCeiling(target) > 0) return undefined;
    const { maxAttempts } = target.policy;
    return {
      severity: "error",
      field: target.policy.delaysMs ? "delaysMs" : "initialDelayMs",
      sentence: `All ${maxAttempts} attempts are sent at once: only ${formatPercent(coverageOf(target.policy, 100))} of the calls outlast an outage of 100 ms, and the server gets ${maxAttempts} times the load.`,
      fix: target.policy.delaysMs
        ? "Make the entries of delaysMs 100 or more."
        : "Set initialDelayMs to 100 or more.",
      figures: { attempts: maxAttempts, coverage: 0 },
    };
  },
};

const noJitter: Rule = {
  id: "no-jitter",
  problem: "Without jitter, clients that fail together retry together",
  check(target) {
    const { policy, clients } = target;
    if (!retries(target) || policy.jitterType !== "NONE" || clients < MIN_HERD) return undefined;
    if (lastCeiling(target) === 0) return undefined;
    const jittered = herdShare(target, { jitterType: "FULL" });
    return {
      severity: "warning",
      field: "jitterType",
      sentence: `All ${formatInteger(clients)} clients that fail together retry at one instant; with FULL, at most ${formatPercent(jittered)} of them share a window of a tenth of the first wait.`,
      fix: "Set jitterType to FULL, or to EQUAL if you need a minimum wait.",
      figures: { clients, peakShare: 1, peakShareFull: jittered },
    };
  },
};

const narrowJitter: Rule = {
  id: "narrow-jitter",
  problem: "A narrow jitter keeps the retries synchronized",
  check(target) {
    const { policy, clients } = target;
    if (!retries(target) || policy.jitterType !== "PROPORTIONAL" || clients < MIN_HERD)
      return undefined;
    if (policy.jitterRatio >= 0.1) return undefined;
    const share = herdShare(target);
    return {
      severity: "warning",
      field: "jitterRatio",
      sentence: `A jitter of ${formatPercent(policy.jitterRatio)} leaves ${formatPercent(share)} of the clients in one window of a tenth of the first wait.`,
      fix: "Set jitterRatio to 0.2 (gRPC) or more, or jitterType to FULL.",
      figures: { jitterRatio: policy.jitterRatio, peakShare: share },
    };
  },
};

const fixedDelay: Rule = {
  id: "fixed-delay",
  problem: "A fixed delay keeps the load constant for the whole outage",
  check(target) {
    const { policy, compiled } = target;
    if (policy.backoff !== "FIXED" || policy.maxAttempts <= 3 || compiled.ceilingMs(1) === 0)
      return undefined;
    const everyMs = compiled.ceilingMs(1);
    const minute = Math.min(policy.maxAttempts, Math.floor(60_000 / everyMs) + 1);
    const doubling = Math.min(policy.maxAttempts, doublings(60_000 / everyMs) + 1);
    const comparison =
      doubling < minute
        ? `, ${minute} in the first minute; doubling waits would send ${doubling}`
        : `, as often after ${policy.maxAttempts - 1} failures as after the first`;
    return {
      severity: "warning",
      field: "backoff",
      sentence: `A failing server gets an attempt from each client every ${formatDuration(everyMs)}${comparison}.`,
      fix: "Set backoff to EXPONENTIAL.",
      figures: { everyMs, attemptsPerMinute: minute, attemptsPerMinuteExponential: doubling },
    };
  },
};

/** How many doubling waits fit: the largest n with 2^n - 1 <= `sum`. */
function doublings(sum: number): number {
  let n = 0;
  for (let total = 1; total <= sum; n++) total = 2 * total + 1;
  return n;
}

const flatCurve: Rule = {
  id: "flat-curve",
  problem: "A low cap turns exponential backoff into a fixed delay",
  check(target) {
    const { policy, compiled } = target;
    if (
      policy.backoff !== "EXPONENTIAL" ||
      policy.maxAttempts < 5 ||
      policy.jitterType === "DECORRELATED"
    ) {
      return undefined;
    }
    if (compiled.ceilingMs(1) === 0 || compiled.ceilingMs(2) < policy.maxDelayMs) return undefined;
    return {
      severity: "warning",
      field: "maxDelayMs",
      sentence: `The ceiling reaches its cap of ${formatDuration(policy.maxDelayMs)} at the second wait: ${policy.maxAttempts - 2} of ${policy.maxAttempts - 1} waits are the same.`,
      fix: "Raise maxDelayMs to at least 8 times initialDelayMs, or set multiplier above 1.",
      figures: { maxDelayMs: policy.maxDelayMs, flatWaits: policy.maxAttempts - 2 },
    };
  },
};

const capTooLong: Rule = {
  id: "cap-too-long",
  problem: "A wait of 2^20 s is twelve days",
  check(target) {
    const { policy, context } = target;
    if (!retries(target) || policy.delaysMs !== undefined) return undefined;
    const ceilingMs = lastCeiling(target);
    const limitMs = context.waits === "person" ? 10_000 : HOUR_MS;
    if (ceilingMs <= limitMs) return undefined;
    return {
      severity: "warning",
      field: "maxDelayMs",
      sentence: `The last wait may take ${formatDuration(ceilingMs)}: the client may notice a recovery that late.`,
      fix: `Set maxDelayMs to ${formatInteger(limitMs)} or less.`,
      figures: { lastCeilingMs: ceilingMs, limitMs },
    };
  },
};

const belowMinimum: Rule = {
  id: "below-minimum",
  problem: "FULL jitter may pick a wait of 0",
  check(target) {
    const { compiled, context } = target;
    const { minimumWaitMs = 0 } = context;
    const lowMs = compiled.delayMs(1, 0, 0);
    if (!retries(target) || lowMs >= minimumWaitMs) return undefined;
    return {
      severity: "warning",
      field: "jitterType",
      sentence: `The first wait may be as short as ${formatDuration(lowMs)}, below the required minimum of ${formatDuration(minimumWaitMs)}.`,
      fix: `Set jitterType to EQUAL and ${target.policy.delaysMs ? "every entry of delaysMs" : "initialDelayMs"} to ${formatInteger(2 * minimumWaitMs)} or more, within totalBudgetMs.`,
      figures: { lowMs, minimumWaitMs },
    };
  },
};

const decorrelated: Rule = {
  id: "decorrelated",
  problem: "Decorrelated jitter covers less than FULL in the simulation",
  check(target) {
    const { policy, context } = target;
    if (!retries(target) || policy.jitterType !== "DECORRELATED") return undefined;
    const outageMs = context.outageMs ?? 8000;
    const tried = { samples: sampleCalls(policy) };
    const own = coverageOf(policy, outageMs, tried);
    const full = coverageOf({ ...policy, jitterType: "FULL" }, outageMs, tried);
    if (own >= 0.95) return undefined;
    return {
      severity: full > own ? "warning" : "info",
      field: "jitterType",
      sentence: `Decorrelated waits are a random walk: ${formatPercent(1 - own)} of the calls give up before an outage of ${formatDuration(outageMs)} is over; with FULL, ${formatPercent(1 - full)}.`,
      fix: "Set jitterType to FULL, or EQUAL for jobs.",
      figures: { outageMs, coverage: own, coverageFull: full },
    };
  },
};

export const waitRules: readonly Rule[] = [
  noWait,
  noJitter,
  narrowJitter,
  fixedDelay,
  flatCurve,
  capTooLong,
  belowMinimum,
  decorrelated,
];

// Give-up rules: find policies that give up too early, too late or never.

const DAY_MS = 86_400_000;

const endless: Rule = {
  id: "endless",
  problem: "Retries without a ceiling go on forever",
  check({ policy }) {
    if (policy.maxAttempts < 100) return undefined;
    return {
      severity: "error",
      field: "maxAttempts",
      sentence: `${formatInteger(policy.maxAttempts)} attempts load a failing server as long as it fails: ${formatInteger(policy.maxAttempts)} times the load of a call without retries.`,
      fix: "Set maxAttempts to 3 to 5 for calls that somebody waits for, or 8 to 20 for durable work, and use a dead-letter queue.",
      figures: { maxAttempts: policy.maxAttempts },
    };
  },
};

/** The share of calls that reach their last attempt, if attempts fail at once. */
function reachesLast({ policy }: Target): number {
  const waits = waitsOf(policy);
  const { state } = drawsOf(1, "lint");
  const runs = waits.compiled.draws ? SAMPLES : 1;
  let reached = 0;
  for (let run = 0; run < runs; run++) {
    let elapsedMs = 0;
    let previousMs = 0;
    let attempt = 1;
    while (attempt < policy.maxAttempts) {
      const waitMs = nextWait(
        waits,
        attempt,
        elapsedMs,
        previousMs,
        waits.compiled.draws ? nextDraw(state) : 0,
      );
      if (waitMs < 0) break;
      previousMs = waitMs;
      elapsedMs += waitMs;
      attempt++;
    }
    if (attempt === policy.maxAttempts) reached++;
  }
  return reached / runs;
}

const waitsDoNotFit: Rule = {
  id: "waits-do-not-fit",
  problem: "The waits exceed the total budget: eight doubling waits from 100 ms sum to 25.5 s",
  check(target) {
    const { policy } = target;
    if (policy.maxAttempts === 1) return undefined;
    const share = reachesLast(target);
    if (share >= 0.5) return undefined;
    return {
      severity: "warning",
      field: "totalBudgetMs",
      sentence: `Only ${formatPercent(share)} of the calls reach attempt ${policy.maxAttempts}: the waits do not fit into ${formatDuration(policy.totalBudgetMs)}.`,
      fix: policy.delaysMs
        ? "Raise totalBudgetMs, or remove entries from delaysMs."
        : "Raise totalBudgetMs, or lower maxAttempts or maxDelayMs to fit it.",
      figures: { share, totalBudgetMs: policy.totalBudgetMs },
    };
  },
};

const attemptOutlivesBudget: Rule = {
  id: "attempt-outlives-budget",
  problem: "One attempt that times out uses up the total budget",
  check({ policy, compiled }) {
    const neededMs = policy.attemptTimeoutMs + compiled.ceilingMs(1) + policy.minCallMs;
    if (policy.maxAttempts === 1 || neededMs <= policy.totalBudgetMs) return undefined;
    return {
      severity: "warning",
      field: "attemptTimeoutMs",
      sentence: `One attempt that times out after ${formatDuration(policy.attemptTimeoutMs)} uses up the budget of ${formatDuration(policy.totalBudgetMs)}, so a timeout is never retried.`,
      fix: `Set attemptTimeoutMs to about ${formatInteger(Math.max(100, policy.totalBudgetMs / (policy.maxAttempts + 1)))}.`,
      figures: { neededMs, totalBudgetMs: policy.totalBudgetMs },
    };
  },
};

const shortCover: Rule = {
  id: "short-cover",
  problem: "The retries end before the outage (the most common mistake)",
  check({ policy, context }) {
    const { outageMs } = context;
    // When a person waits, the policy gives up early on purpose.
    if (outageMs === undefined || context.waits === "person" || policy.maxAttempts === 1)
      return undefined;
    const share = coverageOf(policy, outageMs, { samples: sampleCalls(policy) });
    if (share >= 0.9) return undefined;
    return {
      severity: "warning",
      field: "maxAttempts",
      sentence: `${formatPercent(share)} of the calls outlast an outage of ${formatDuration(outageMs)}; the others make ${policy.maxAttempts} useless attempts.`,
      fix: `Raise ${policy.delaysMs ? "the entries of delaysMs or add some" : "maxAttempts or initialDelayMs"} (use advise to find the fewest attempts for 95 %), or send the call through the durable service.`,
      figures: { outageMs, coverage: share },
    };
  },
};

const personWaits: Rule = {
  id: "person-waits",
  problem: "A person gives up before the retries do",
  check({ policy, context }) {
    if (context.waits !== "person") return undefined;
    if (policy.totalBudgetMs <= 10_000 && policy.maxAttempts <= 5) return undefined;
    return {
      severity: "warning",
      field: "totalBudgetMs",
      sentence: `A person would wait up to ${formatDuration(policy.totalBudgetMs)} and ${policy.maxAttempts} attempts for an error.`,
      fix: "Set totalBudgetMs to 5000 and maxAttempts to 3, hedge reads, and send writes through the durable service.",
      figures: { totalBudgetMs: policy.totalBudgetMs, maxAttempts: policy.maxAttempts },
    };
  },
};

const poisonLoop: Rule = {
  id: "poison-loop",
  problem: "A poison message is requeued forever",
  check({ compiled, context }) {
    const { maxReceives } = context;
    if (maxReceives === undefined || (maxReceives !== null && maxReceives <= 100)) return undefined;
    const waitMs = Math.max(1, compiled.ceilingMs(10_000));
    const runsPerDay = DAY_MS / waitMs;
    const limit =
      maxReceives === null
        ? "No limit on receives"
        : `A limit of ${formatInteger(maxReceives)} receives`;
    return {
      severity: "error",
      field: "maxReceives",
      sentence: `${limit} lets one poison message run ${formatInteger(runsPerDay)} times a day.`,
      fix: "Set the queue's maximum receives to 3 to 10 and give it a dead-letter queue.",
      figures: { runsPerDay },
    };
  },
};

/** Codes for a problem of the request itself: repeating it gives the same response. */
const PERMANENT = [400, 401, 403, 404, 405, 410, 413, 415, 422];

/** A schedule this long gives people time to repair the receiver. */
const REPAIR_MS = 3_600_000;

const permanentErrors: Rule = {
  id: "permanent-errors",
  problem: "A permanent error (400, 401, 404) does not change on a retry",
  check({ policy, compiled }) {
    const codes = policy.retryableStatusCodes.filter((code) => PERMANENT.includes(code));
    let maxSumMs = 0;
    for (let n = 1; n < policy.maxAttempts; n++) maxSumMs += compiled.ceilingMs(n);
    if (policy.maxAttempts === 1 || codes.length === 0 || maxSumMs >= REPAIR_MS) return undefined;
    return {
      severity: "error",
      field: "retryableStatusCodes",
      sentence: `Responses with ${codes.join(", ")} do not change, but each call is made ${policy.maxAttempts} times: ${policy.maxAttempts - 1} useless calls and ${formatDuration(maxSumMs)} of waits.`,
      fix: `Remove ${codes.join(", ")} from retryableStatusCodes; 401 needs a new token, not a retry.`,
      figures: { codes: codes.length, vainCalls: policy.maxAttempts - 1 },
    };
  },
};

export const endRules: readonly Rule[] = [
  endless,
  waitsDoNotFit,
  attemptOutlivesBudget,
  shortCover,
  personWaits,
  poisonLoop,
  permanentErrors,
];

// Guard rules: find missing and badly configured guards.

const UNSAFE_METHODS = ["POST", "PATCH"];

const unsafeRepeat: Rule = {
  id: "unsafe-repeat",
  problem: "A POST that is retried after a timeout may charge twice",
  check({ policy, destination, context }) {
    const { method = "", idempotent = destination?.idempotent } = context;
    const unsafe =
      idempotent === false || (idempotent === undefined && UNSAFE_METHODS.includes(method));
    const ambiguous =
      policy.retryableStatusCodes.length > 0 || policy.retryableErrors.includes("timeout");
    if (!unsafe || policy.maxAttempts === 1 || policy.requireIdempotencyKey || !ambiguous)
      return undefined;
    // For 10,000 calls of which 1 % time out after the work was done.
    const doubles = 100 + (policy.maxAttempts > 2 ? 1 : 0);
    return {
      severity: "error",
      field: "requireIdempotencyKey",
      sentence: `If one call in a hundred times out after its work was done, 10,000 calls repeat ${doubles} effects. Redrive therefore stops such calls as not-idempotent and never retries them.`,
      fix: "Send an idempotency key and set requireIdempotencyKey, or retry only calls that were never sent (connect, dns).",
      figures: { doublesPer10000: doubles },
    };
  },
};

/** The number of retries within `withinMs`, with the shortest possible waits. */
function earliestWithin(maxAttempts: number, compiled: CompiledPolicy, withinMs: number): number {
  let atMs = 0;
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    atMs += compiled.delayMs(attempt, 0, 0);
    if (atMs >= withinMs) return attempt - 1;
  }
  return maxAttempts - 1;
}

const ignoresRetryAfter: Rule = {
  id: "ignores-retry-after",
  problem: "A server that asks for 60 s is called again after 2 s",
  check({ policy, compiled }) {
    const codes = policy.retryableStatusCodes.filter((code) => code === 429 || code === 503);
    if (policy.respectRetryAfter || codes.length === 0 || policy.maxAttempts === 1)
      return undefined;
    const early = earliestWithin(policy.maxAttempts, compiled, 60_000);
    // With longer waits, retries come too early only for servers that ask for more than 60 s.
    if (early === 0) return undefined;
    return {
      severity: "error",
      field: "respectRetryAfter",
      sentence: `A server that asks for 60 s gets up to ${early} more attempts within that time.`,
      fix: "Set respectRetryAfter to true: retries then wait at least that long, plus jitter.",
      figures: { attemptsWithin60s: early },
    };
  },
};

const fastThrottle: Rule = {
  id: "fast-throttle",
  problem: "A 429 is retried as fast as possible",
  check({ policy, compiled }) {
    const retries429 = policy.retryableStatusCodes.includes(429) && policy.maxAttempts > 1;
    const firstMs = compiled.ceilingMs(1, true);
    if (!retries429 || firstMs >= 20) return undefined;
    return {
      severity: "warning",
      field: policy.delaysMs ? "delaysMs" : "throttleDelayMs",
      sentence: `After a 429 without Retry-After the next attempt comes within ${formatDuration(firstMs)}: ${formatInteger(1000 / Math.max(1, firstMs))} per second and client.`,
      fix: `Set ${policy.delaysMs ? "the first entry of delaysMs" : "throttleDelayMs"} to 500 (the AWS SDKs' base after throttling) or more.`,
      figures: { firstMs },
    };
  },
};

const noBudget: Rule = {
  id: "no-budget",
  problem: "Without a retry budget, nothing limits the retries of all calls together",
  check({ policy, destination, clients }) {
    if (!destination || destination.retryBudget || policy.maxAttempts === 1 || clients < MIN_HERD)
      return undefined;
    const { maxAttempts } = policy;
    return {
      severity: "warning",
      field: "retryBudget",
      sentence: `In an outage the load grows ${maxAttempts} times: a server with a load above ${formatPercent(1 / maxAttempts)} of its capacity never recovers by itself.`,
      fix: "Set retryBudget to { ratio: 0.1 }: the load then grows at most 1.1 times.",
      figures: { amplification: maxAttempts, safeUtilisation: 1 / maxAttempts },
    };
  },
};

/** A guard that ends a tenth more of the calls than the policy alone is worth a finding. */
const LOST_TO_GUARDS = 0.1;

const guardsLoseCalls: Rule = {
  id: "guards-lose-calls",
  problem:
    "Calls that share a budget or a breaker and fail fast are lost in an outage that their policy would outlast",
  check({ policy, document, context, clients }) {
    const { outageMs = 0, patience, callsPerProcess = clients } = context;
    if (document === undefined || patience === "wait" || outageMs === 0) return undefined;
    if (policy.maxAttempts === 1) return undefined;
    const calls = Math.min(MAX_SURVIVAL_CALLS, callsPerProcess);
    const alone = survival({ policy: document.policy ?? {} }, outageMs, { calls });
    const guarded = survival(document, outageMs, { calls });
    const lost = alone.share - guarded.share;
    if (lost < LOST_TO_GUARDS) return undefined;
    const waiting = survival(document, outageMs, { calls, patience: "wait" });
    const outage = formatDuration(outageMs);
    return {
      severity: guarded.share < 0.5 ? "error" : "warning",
      field: document.retryBudget ? "retryBudget" : "breaker",
      sentence: `Of ${formatInteger(calls)} calls of one process, ${formatPercent(guarded.share)} survive an outage of ${outage}; the policy alone brings ${formatPercent(alone.share)} through it. Their guards end the others, the last one after ${formatDuration(guarded.doneAtMs)}.`,
      fix: `Pass patience: "wait" to the calls (${formatPercent(waiting.share)} then survive), or handle the refusal: a fallback, or a hand-off to the service.`,
      figures: { calls, survive: guarded.share, policyAlone: alone.share, waiting: waiting.share },
    };
  },
};

const largeBudget: Rule = {
  id: "large-budget",
  problem:
    "A budget that is too large (lab metastable: a bucket of 10,000 takes 47 s to recover, one of 100 takes 13 s)",
  check({ destination, clients }) {
    const budget = destination?.retryBudget;
    if (budget?.kind === "RATIO" && budget.ratio > 0.3) {
      const safe = 1 / (1 + budget.ratio);
      return {
        severity: "warning",
        field: "retryBudget.ratio",
        sentence: `A budget of ${formatPercent(budget.ratio)} lets the load grow ${formatNumber(1 + budget.ratio)} times: it protects only servers with a load below ${formatPercent(safe)}.`,
        fix: "Set retryBudget.ratio to 0.1 or 0.2.",
        figures: { amplification: 1 + budget.ratio, safeUtilisation: safe },
      };
    }
    if (budget?.kind !== "TOKENS") return undefined;
    const burst = Math.floor(budget.maxTokens / budget.costPerRetry) * clients;
    if (burst <= 100_000) return undefined;
    return {
      severity: "warning",
      field: "retryBudget.maxTokens",
      sentence: `${formatInteger(clients)} clients with full buckets may send ${formatInteger(burst)} retries before the budgets stop them.`,
      fix: "Lower maxTokens, or share one budget among the clients of a process.",
      figures: { burst },
    };
  },
};

const noBreaker: Rule = {
  id: "no-breaker",
  problem: "More than 1,000 clients need a circuit breaker",
  check({ policy, destination, clients }) {
    if (!destination || destination.breaker || policy.maxAttempts === 1 || clients <= 1000)
      return undefined;
    return {
      severity: "warning",
      field: "breaker",
      sentence: `Without a breaker, every call of ${formatInteger(clients)} clients makes its ${policy.maxAttempts} attempts at a server that is known to be down (lab breaker: 3 to 6 s to recover with one, 120 s with only a budget).`,
      fix: "Set breaker to {}: it opens when half of at least 20 calls within 10 s fail.",
      figures: { clients, attempts: policy.maxAttempts },
    };
  },
};

/**
 * The probability of at least `minFailures` failures among `calls`, each with probability `share`.
 */
function tripProbability(calls: number, minFailures: number, share: number): number {
  let probability = 0;
  let term = 1;
  for (let k = 0; k < calls; k++) term *= 1 - share;
  for (let k = 0; k <= calls; k++) {
    if (k >= minFailures) probability += term;
    term *= ((calls - k) / (k + 1)) * (share / (1 - share));
  }
  return probability;
}

const hastyBreaker: Rule = {
  id: "hasty-breaker",
  problem:
    "A breaker that opens too early (Brooker 2022: with one of three shards down, a breaker over 20 calls serves 28 % instead of 67 %)",
  check({ destination, context }) {
    const { shards = 1, breakerPerShard = false } = context;
    const breaker = destination?.breaker;
    if (!breaker) return undefined;
    const keyed = shards > 1 && !breakerPerShard;
    const needed = keyed ? 100 : 10;
    if (breaker.minCalls >= needed) return undefined;
    const share = keyed ? 1 / shards : 0.05;
    const minFailures = Math.max(1, -Math.floor(-breaker.failureRate * breaker.minCalls));
    const probability = tripProbability(breaker.minCalls, minFailures, share);
    const cause = keyed ? `one shard of ${shards} down` : "one call in twenty failing";
    return {
      severity: "warning",
      field: "breaker.minCalls",
      sentence: `With ${cause}, ${breaker.minCalls} calls open the circuit for all calls with a probability of ${formatPercent(probability)}.`,
      fix: keyed
        ? "Use one breaker per shard, or set minCalls to 100 or more."
        : "Set breaker.minCalls to 20 or more.",
      figures: { minCalls: breaker.minCalls, tripChance: probability },
    };
  },
};

const hedgeWithoutBudget: Rule = {
  id: "hedge-without-budget",
  problem: "Without a retry budget, nothing limits hedges",
  check({ destination }) {
    if (!destination?.hedge || destination.retryBudget) return undefined;
    const copies = destination.hedge.max + 1;
    return {
      severity: "warning",
      field: "retryBudget",
      sentence: `When the server slows down, every call becomes ${copies} calls: ${copies} times the load at the worst moment.`,
      fix: "Set retryBudget to { ratio: 0.1 }: it limits hedges and retries.",
      figures: { amplification: copies },
    };
  },
};

const earlyHedge: Rule = {
  id: "early-hedge",
  problem: "Early hedging adds load to a healthy server",
  check({ destination }) {
    const hedge = destination?.hedge;
    const quantile = hedge && hedgeQuantile(hedge.after);
    if (!hedge || quantile === undefined || quantile >= 0.9) return undefined;
    const extra = (1 - quantile) * hedge.max;
    return {
      severity: "warning",
      field: "hedge.after",
      sentence: `Hedging at ${hedge.after} sends ${formatPercent(extra)} more calls to a healthy server; at p95, 5 %.`,
      fix: 'Set hedge.after to "p95".',
      figures: { extraLoad: extra },
    };
  },
};

export const guardRules: readonly Rule[] = [
  unsafeRepeat,
  ignoresRetryAfter,
  fastThrottle,
  noBudget,
  guardsLoseCalls,
  largeBudget,
  noBreaker,
  hastyBreaker,
  hedgeWithoutBudget,
  earlyHedge,
];
