/**
 * Lint: finds problems of a policy, a destination or a set of tiers, each with figures, and fixes
 * them. A subject passes if it has no finding worse than `info`.
 */
import {
  compiledPolicyOf,
  type DestinationDocument,
  formatInteger,
  formatNumber,
  formatPercent,
  isObject,
  type Policy,
  type PolicyDocument,
  type PresetName,
  preset,
  RedriveError,
  type RetryBudgetDocument,
} from "@redrive/core";
import { power } from "../engine/numeric.ts";
import { attemptsToOutlast } from "../schedule/coverage.ts";
import { policyOf } from "../schedule/waits.ts";
import {
  type Finding,
  type Found,
  isTiers,
  type LintContext,
  type LintSubject,
  type LintTier,
  type LintTiers,
  type Rule,
  type Severity,
  targetOf,
} from "./rule.ts";
import { endRules, guardRules, waitRules } from "./rules.ts";

/** This rule needs all tiers; the other rules check one policy. */
const NESTED = "nested-layers";

const RULES: readonly Rule[] = [...waitRules, ...endRules, ...guardRules];

/** The id and the problem of every rule, in the order of findings. */
export const lintRules: readonly { readonly id: string; readonly problem: string }[] = [
  ...RULES.map(({ id, problem }) => ({ id, problem })),
  { id: NESTED, problem: "Attempts of nested layers multiply: four layers of three make 81 calls" },
];

/** Finds problems, worst first. Throws as `resolvePolicy` does for an invalid document. */
export function lint(subject: LintSubject, context: LintContext = {}): readonly Finding[] {
  const findings = isTiers(subject)
    ? lintTiers(subject.tiers, context)
    : lintOne(subject, context, "");
  const rank = { error: 0, warning: 1, info: 2 } as const;
  return [...findings].sort((a, b) => rank[a.severity] - rank[b.severity]);
}

/** True if lint finds nothing worse than `info`. */
export function passesLint(subject: LintSubject, context: LintContext = {}): boolean {
  return lint(subject, context).every((finding) => finding.severity === "info");
}

function lintOne(
  subject: Exclude<LintSubject, { tiers: unknown }>,
  context: LintContext,
  prefix: string,
): Finding[] {
  const target = targetOf(subject, context);
  return RULES.flatMap((rule) => {
    const found = rule.check(target);
    return found === undefined ? [] : [findingOf(rule.id, found, prefix)];
  });
}

function findingOf(id: string, found: Found, prefix: string): Finding {
  return { id, ...found, field: prefix + found.field, docs: `docs/lint.md#${id}` };
}

function lintTiers(tiers: readonly LintTier[], context: LintContext): Finding[] {
  const inner = tiers.flatMap((tier, index) => {
    const name = tier.name ?? `tiers[${index}]`;
    const subject = {
      policy: tier.policy ?? {},
      ...(tier.retryBudget === undefined ? {} : { retryBudget: tier.retryBudget }),
    };
    return lintOne(subject, context, `${name}.`);
  });
  const nested = nestedLayers(tiers);
  return nested === undefined ? inner : [nested, ...inner];
}

function nestedLayers(tiers: readonly LintTier[]): Finding | undefined {
  const attempts = tiers.map((tier) => policyOf(tier.policy).maxAttempts);
  const retrying = attempts.filter((count) => count > 1);
  if (retrying.length < 2) return undefined;
  const calls = tierLoad(attempts, 1);
  const half = tierLoad(attempts, 0.5);
  const outer = attempts[0] ?? 1;
  return findingOf(
    NESTED,
    {
      severity: calls > 10 ? "error" : "warning",
      field: "tiers",
      sentence: `${attempts.join(" x ")} = ${formatInteger(calls)}: one call of a client becomes ${formatInteger(calls)} calls at the last tier while it is down (${formatNumber(half)} while it fails ${formatPercent(0.5)} of the calls).`,
      fix: `Let one layer retry, usually the outermost (${formatInteger(Math.max(outer, 3))} calls at most), and set maxAttempts to 1 at the others.`,
      figures: { layers: retrying.length, calls, callsAtHalf: half },
    },
    "",
  );
}

// Fix finding: applies the fix of a lint finding. A table proposes the change, and lint then checks
// it. The result is a valid document with fewer problems, or undefined.

/**
 * The subject with the finding fixed, or undefined if no single change fixes it. `findings` are all
 * findings of the subject, for callers that already have them.
 */
export function fixFinding(
  subject: LintSubject,
  finding: Finding,
  context: LintContext = {},
  findings: readonly Finding[] = lint(subject, context),
): LintSubject | undefined {
  const fixed = isTiers(subject)
    ? fixTiers(subject, finding, context)
    : fixOne(subject, finding, context);
  if (fixed === undefined) return undefined;
  return isBetter(fixed, finding, context, findings) ? fixed : undefined;
}

const WEIGHTS: Readonly<Record<Severity, number>> = { error: 100, warning: 10, info: 1 };

/** False for a change that only causes another problem. */
function isBetter(
  fixed: LintSubject,
  { id, field }: Finding,
  context: LintContext,
  findings: readonly Finding[],
): boolean {
  const weight = (those: readonly Finding[]) =>
    those.reduce((sum, { severity }) => sum + WEIGHTS[severity], 0);
  try {
    const after = lint(fixed, context);
    const isGone = after.every((one) => one.id !== id || one.field !== field);
    return isGone && weight(after) < weight(findings);
  } catch (error) {
    if (error instanceof RedriveError) return false;
    throw error;
  }
}

type One = Exclude<LintSubject, LintTiers>;

/** What to set: fields of the policy, and guards of the destination. */
interface Change {
  readonly policy?: PolicyDocument;
  readonly guards?: Omit<DestinationDocument, "policy">;
}

function fixOne(subject: One, finding: Finding, context: LintContext): One | undefined {
  const { policy, destination } = targetOf(subject, context);
  const change =
    POLICY_CHANGES[finding.id]?.(policy, context, finding.figures) ??
    guardChange(finding.id, subject, context);
  if (change === undefined) return undefined;
  if (destination === undefined)
    return change.policy && { ...documentOf(subject as PolicyDocument), ...change.policy };
  const document = subject as DestinationDocument;
  return {
    ...document,
    ...(change.policy && { policy: { ...documentOf(document.policy), ...change.policy } }),
    ...change.guards,
  };
}

function documentOf(policy: PolicyDocument | PresetName = {}): PolicyDocument {
  return typeof policy === "string" ? preset(policy) : policy;
}

type PolicyChange = (
  policy: Policy,
  context: LintContext,
  figures: Finding["figures"],
) => Change | undefined;

/** By rule. Each makes the change that the rule's `fix` describes. */
const POLICY_CHANGES: Readonly<Record<string, PolicyChange>> = {
  "no-wait": () => set({ initialDelayMs: 100 }),
  "no-jitter": () => set({ jitterType: "FULL" }),
  "narrow-jitter": () => set({ jitterRatio: 0.2 }),
  "fixed-delay": () => set({ backoff: "EXPONENTIAL" }),
  "flat-curve": ({ multiplier = 2, initialDelayMs = 0 }) =>
    set({
      maxDelayMs: Math.min(MAX_WAIT_MS, 8 * initialDelayMs),
      ...(multiplier < 1.5 && { multiplier: 2 }),
    }),
  "cap-too-long": (_policy, _context, { limitMs }) =>
    limitMs === undefined ? undefined : set({ maxDelayMs: limitMs }),
  "below-minimum": (policy, { minimumWaitMs = 0 }) => withFirstWait(policy, 2 * minimumWaitMs),
  decorrelated: () => set({ jitterType: "FULL" }),
  endless: () => set({ maxAttempts: 20 }),
  "waits-do-not-fit": (policy) =>
    set({ totalBudgetMs: totalBudgetFor(policy, policy.maxAttempts) }),
  "attempt-outlives-budget": (policy) => set(timeoutsFor(policy)),
  "short-cover": (policy, { outageMs }) =>
    outageMs === undefined ? undefined : attemptsFor(policy, outageMs),
  "person-waits": (policy) => {
    const quick = { maxAttempts: 3, totalBudgetMs: 5000 };
    return set({ ...quick, ...timeoutsFor({ ...policy, ...quick }) });
  },
  "permanent-errors": ({ retryableStatusCodes }) =>
    set({
      retryableStatusCodes: retryableStatusCodes.filter(
        (code) => code >= 500 || [408, 425, 429].includes(code),
      ),
    }),
  "unsafe-repeat": () => set({ requireIdempotencyKey: true }),
  "ignores-retry-after": () => set({ respectRetryAfter: true }),
  "fast-throttle": () => set({ throttleDelayMs: 500 }),
};

const MAX_WAIT_MS = 30 * 86_400_000;
const MAX_TOTAL_MS = 365 * 86_400_000;

function set(policy: PolicyDocument): Change {
  return { policy };
}

/** Makes the first wait at least this long, and with it all fields that must not be shorter. */
function withFirstWait(policy: Policy, initialDelayMs: number): Change | undefined {
  const { maxDelayMs, throttleDelayMs, totalBudgetMs, maxAttempts } = policy;
  if (policy.delaysMs !== undefined) return undefined;
  const longer = {
    jitterType: "EQUAL",
    initialDelayMs,
    ...((maxDelayMs ?? 0) < initialDelayMs && {
      maxDelayMs: Math.min(MAX_WAIT_MS, 8 * initialDelayMs),
    }),
    ...((throttleDelayMs ?? 0) < initialDelayMs && { throttleDelayMs: initialDelayMs }),
  } as const;
  const requiredMs = totalBudgetFor({ ...policy, ...longer } as Policy, maxAttempts);
  return set({ ...longer, ...(totalBudgetMs < initialDelayMs && { totalBudgetMs: requiredMs }) });
}

/** The sum of all wait ceilings and all timeouts, as in `advise`. */
function totalBudgetFor(policy: Policy, maxAttempts: number): number {
  const compiled = compiledPolicyOf(policy);
  let sumMs = maxAttempts * policy.attemptTimeoutMs;
  for (let n = 1; n < maxAttempts; n++) sumMs += compiled.ceilingMs(n);
  return Math.min(MAX_TOTAL_MS, Math.max(policy.totalBudgetMs, Math.floor(sumMs)));
}

/** Timeouts that let every attempt time out within the total budget. */
function timeoutsFor(policy: Policy): PolicyDocument {
  const share = Math.floor(policy.totalBudgetMs / (policy.maxAttempts + 1));
  const attemptTimeoutMs = Math.max(100, Math.min(policy.attemptTimeoutMs, share));
  return {
    attemptTimeoutMs,
    connectTimeoutMs: Math.min(policy.connectTimeoutMs, attemptTimeoutMs),
  };
}

/** Lint reports 100 attempts as endless; `advise` uses at most 60. */
const MAX_ATTEMPTS = 60;

/** The fewest attempts that outlast the outage in 96 % of the cases, and their total budget. */
function attemptsFor(policy: Policy, outageMs: number): Change | undefined {
  if (policy.delaysMs !== undefined) return undefined;
  const unlimited = { ...policy, maxAttempts: MAX_ATTEMPTS, totalBudgetMs: MAX_TOTAL_MS };
  const maxAttempts = attemptsToOutlast(unlimited, outageMs, 0.96);
  return set({ maxAttempts, totalBudgetMs: totalBudgetFor(policy, maxAttempts) });
}

const RATIO_BUDGET: RetryBudgetDocument = { kind: "RATIO", ratio: 0.1 };

function guardChange(id: string, subject: One, context: LintContext): Change | undefined {
  if (!isObject(subject)) return undefined;
  const { breaker, hedge } = subject as DestinationDocument;
  switch (id) {
    case "no-budget":
    case "hedge-without-budget":
    case "large-budget":
      return { guards: { retryBudget: RATIO_BUDGET } };
    case "no-breaker":
      return { guards: { breaker: { minCalls: (context.shards ?? 1) > 1 ? 100 : 20 } } };
    case "hasty-breaker":
      return {
        guards: { breaker: { ...breaker, minCalls: (context.shards ?? 1) > 1 ? 100 : 20 } },
      };
    case "early-hedge":
      return { guards: { hedge: { ...hedge, after: "p95" } } };
    default:
      return undefined;
  }
}

function fixTiers(
  { tiers }: LintTiers,
  finding: Finding,
  context: LintContext,
): LintTiers | undefined {
  if (finding.id === "nested-layers") {
    return { tiers: tiers.map((tier, index) => (index === 0 ? tier : onceOnly(tier))) };
  }
  const index = tiers.findIndex(({ name }, at) =>
    finding.field.startsWith(`${name ?? `tiers[${at}]`}.`),
  );
  const tier = tiers[index];
  if (tier === undefined) return undefined;
  const { policy = {}, retryBudget } = tier;
  const subject = { policy, ...(retryBudget !== undefined && { retryBudget }) };
  const fixed = fixOne(subject, finding, context) as LintTier | undefined;
  return fixed && { tiers: tiers.with(index, { ...tier, ...fixed }) };
}

/** Removes `delaysMs`, which would set the number of attempts. */
function onceOnly(tier: LintTier): LintTier {
  const { delaysMs, ...policy } = documentOf(tier.policy);
  return { ...tier, policy: { ...policy, maxAttempts: 1 } };
}

/**
 * Calls at the last tier per call of a client, if the last tier fails a share of them at random and
 * no layer has a budget. `attempts` lists the outermost layer first. A layer sees a failure only
 * after all attempts of the next layer have failed, so outer layers retry less, unless every call
 * fails.
 */
export function tierLoad(attempts: readonly number[], failureRate: number): number {
  let load = 1;
  let fails = failureRate;
  for (const count of [...attempts].reverse()) {
    load *= fails === 1 ? count : (1 - power(fails, count)) / (1 - fails);
    fails = power(fails, count);
  }
  return load;
}
