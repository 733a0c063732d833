/**
 * Lint: finds problems of a policy, a destination or a set of tiers, each with figures. A subject
 * passes if it has no finding worse than `info`.
 */

import { formatInteger, formatNumber, formatPercent } from "@redrive/core";
import { policyOf } from "../schedule/policy-of.ts";
import { tierLoad } from "../schedule/tier-load.ts";
import { endRules } from "./give-up-rules.ts";
import { guardRules } from "./guard-rules.ts";
import type { Finding, Found, Rule } from "./rule.ts";
import { isTiers, type LintContext, type LintSubject, type LintTier, targetOf } from "./subject.ts";
import { waitRules } from "./wait-rules.ts";

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
