/** Give-up rules: find policies that give up too early, too late or never. */

import { formatDuration, formatInteger, formatPercent } from "@redrive/core";
import { drawsOf, nextDraw } from "../random/draws.ts";
import { coverageOf } from "../schedule/coverage.ts";
import { nextWait, waitsOf } from "../schedule/waits.ts";
import { type Rule, SAMPLES, sampleCalls } from "./rule.ts";
import type { Target } from "./subject.ts";

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
