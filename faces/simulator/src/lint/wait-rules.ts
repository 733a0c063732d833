/** Wait rules: find problems of the waits between attempts. */

import { formatDuration, formatInteger, formatPercent, type PolicyDocument } from "@redrive/core";
import { coverageOf } from "../schedule/coverage.ts";
import { herd } from "../schedule/herd.ts";
import { MIN_HERD, type Rule, sampleCalls } from "./rule.ts";
import type { Target } from "./subject.ts";

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
