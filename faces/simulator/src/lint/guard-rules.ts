/** Guard rules: what stands, or fails to stand, between retries and the server. */
import {
  type CompiledPolicy,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  hedgeQuantile,
} from "@redrive/core";
import { MIN_HERD, type Rule } from "./rule.ts";

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
    // Of 10,000 calls of which 1 % ends in a timeout after the work was done.
    const doubles = 100 + (policy.maxAttempts > 2 ? 1 : 0);
    return {
      severity: "error",
      field: "requireIdempotencyKey",
      sentence: `If one call in a hundred times out after its work was done, 10,000 calls repeat ${doubles} effects; Redrive therefore stops such calls as not-idempotent, and they are never retried.`,
      fix: "Send an idempotency key and set requireIdempotencyKey, or retry only what was never sent (connect, dns).",
      figures: { doublesPer10000: doubles },
    };
  },
};

/** Retries that can come within a span, if chance draws the shortest waits. */
function earliestWithin(maxAttempts: number, kernel: CompiledPolicy, spanMs: number): number {
  let atMs = 0;
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    atMs += kernel.delayMs(attempt, 0, 0);
    if (atMs >= spanMs) return attempt - 1;
  }
  return maxAttempts - 1;
}

const ignoresRetryAfter: Rule = {
  id: "ignores-retry-after",
  problem: "A server that asks for 60 s is called again after 2 s",
  check({ policy, kernel }) {
    const codes = policy.retryableStatusCodes.filter((code) => code === 429 || code === 503);
    if (policy.respectRetryAfter || codes.length === 0 || policy.maxAttempts === 1)
      return undefined;
    const early = earliestWithin(policy.maxAttempts, kernel, 60_000);
    // Whose shortest waits are longer comes too early only for who asks for more than that.
    if (early === 0) return undefined;
    return {
      severity: "error",
      field: "respectRetryAfter",
      sentence: `A server that asks for 60 s of rest gets up to ${early} more attempts before they are over.`,
      fix: "Set respectRetryAfter to true; the hint is never undercut and spread by jitter.",
      figures: { attemptsWithin60s: early },
    };
  },
};

const fastThrottle: Rule = {
  id: "fast-throttle",
  problem: "A 429 is retried as fast as possible",
  check({ policy, kernel }) {
    const retries429 = policy.retryableStatusCodes.includes(429) && policy.maxAttempts > 1;
    const firstMs = kernel.ceilingMs(1, true);
    if (!retries429 || firstMs >= 20) return undefined;
    return {
      severity: "warning",
      field: policy.delaysMs ? "delaysMs" : "throttleDelayMs",
      sentence: `After a 429 without Retry-After the next attempt comes within ${formatDuration(firstMs)}, ${formatInteger(1000 / Math.max(1, firstMs))} a second per client.`,
      fix: `Set ${policy.delaysMs ? "the first entry of delaysMs" : "throttleDelayMs"} to 500 (the AWS SDKs' base after throttling) or more.`,
      figures: { firstMs },
    };
  },
};

const noBudget: Rule = {
  id: "no-budget",
  problem: "Only a retry budget limits retries over all calls",
  check({ policy, destination, clients }) {
    if (!destination || destination.retryBudget || policy.maxAttempts === 1 || clients < MIN_HERD)
      return undefined;
    const { maxAttempts } = policy;
    return {
      severity: "warning",
      field: "retryBudget",
      sentence: `In an outage the load grows to ${maxAttempts} times: a server used to more than ${formatPercent(1 / maxAttempts)} of its capacity never recovers by itself.`,
      fix: "Set retryBudget to { ratio: 0.1 }: the load then grows to 1.1 times at most.",
      figures: { amplification: maxAttempts, safeUtilisation: 1 / maxAttempts },
    };
  },
};

const largeBudget: Rule = {
  id: "large-budget",
  problem:
    "Oversized budgets (lab metastable: a bucket of 10,000 takes 47 s to recover, of 100 13 s)",
  check({ destination, clients }) {
    const budget = destination?.retryBudget;
    if (budget?.kind === "RATIO" && budget.ratio > 0.3) {
      const safe = 1 / (1 + budget.ratio);
      return {
        severity: "warning",
        field: "retryBudget.ratio",
        sentence: `A budget of ${formatPercent(budget.ratio)} lets the load grow to ${formatNumber(1 + budget.ratio)} times: it saves only servers used to less than ${formatPercent(safe)}.`,
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
      sentence: `${formatInteger(clients)} clients with full buckets may send ${formatInteger(burst)} retries before any budget bites.`,
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
      sentence: `With ${formatInteger(clients)} clients and no breaker every call spends its ${policy.maxAttempts} attempts on a server that is known to be down (lab breaker: 3 to 6 s to recover with one, 120 s with a budget alone).`,
      fix: "Set breaker to {}: half of at least 20 calls within 10 s opens it.",
      figures: { clients, attempts: policy.maxAttempts },
    };
  },
};

/** Chance of at least `least` failures among `calls`, each failing with chance `share`. */
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
    "Brooker 2022: one shard of three down, a breaker over 20 calls serves 28 % instead of 67 %",
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
      sentence: `With ${cause}, ${breaker.minCalls} calls open the circuit for everybody with a chance of ${formatPercent(probability)}.`,
      fix: keyed
        ? "Keep one breaker per shard, or set minCalls to 100 or more."
        : "Set breaker.minCalls to 20 or more.",
      figures: { minCalls: breaker.minCalls, tripChance: probability },
    };
  },
};

const hedgeWithoutBudget: Rule = {
  id: "hedge-without-budget",
  problem: "A hedge counts as a retry against the budget",
  check({ destination }) {
    if (!destination?.hedge || destination.retryBudget) return undefined;
    const copies = destination.hedge.max + 1;
    return {
      severity: "warning",
      field: "retryBudget",
      sentence: `When the server slows down every call becomes ${copies}: ${copies} times the load, just then.`,
      fix: "Set retryBudget to { ratio: 0.1 }: hedges draw on it as retries do.",
      figures: { amplification: copies },
    };
  },
};

const earlyHedge: Rule = {
  id: "early-hedge",
  problem: "Early hedging adds load on a good day",
  check({ destination }) {
    const hedge = destination?.hedge;
    const quantile = hedge && hedgeQuantile(hedge.after);
    if (!hedge || quantile === undefined || quantile >= 0.9) return undefined;
    const extra = (1 - quantile) * hedge.max;
    return {
      severity: "warning",
      field: "hedge.after",
      sentence: `Hedging at ${hedge.after} sends ${formatPercent(extra)} more calls on a good day; at p95 it would be 5 %.`,
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
  largeBudget,
  noBreaker,
  hastyBreaker,
  hedgeWithoutBudget,
  earlyHedge,
];
