/** Lint subject: extracts from a scenario what lint checks, and puts a fixed subject back. */
import type { DestinationDocument } from "@redrive/core";
import type { CallsDocument, LintContext, LintTiers } from "@redrive/simulator";
import { policyOf, serverOf, tiersOf } from "./document.ts";

type Subject = DestinationDocument | LintTiers;

/** With several layers, all of them, because lint sees multiplied retries only in all layers. */
export function lintSubjectOf(document: CallsDocument): Subject {
  const tiers = tiersOf(document);
  const policyAt = (index: number) => policyOf(document, index);
  if (tiers.length === 1) return { ...tiers[0]?.destination, policy: policyAt(0) };
  return {
    tiers: tiers.map(({ name, destination }, index) => ({
      ...(name !== undefined && { name }),
      policy: policyAt(index),
      ...(destination?.retryBudget !== undefined && { retryBudget: destination.retryBudget }),
    })),
  };
}

export function lintContextOf(document: CallsDocument): LintContext {
  const outages = (document.timeline ?? []).filter(
    ({ kind }) => kind === "OUTAGE" || kind === "FAILOVER",
  );
  return {
    clients: document.clients.count ?? 1,
    shards: serverOf(document).shards ?? 1,
    breakerPerShard: tiersOf(document).at(-1)?.breakerPerShard ?? false,
    ...(outages.length > 0 && { outageMs: Math.max(...outages.map(({ forMs }) => forMs)) }),
  };
}

/** The scenario with the fixed subject. */
export function withFix(document: CallsDocument, fixed: Subject): CallsDocument {
  const tiers = tiersOf(document).map((tier, index) => {
    if (!("tiers" in fixed)) return { ...tier, destination: fixed };
    const { policy, retryBudget } = fixed.tiers[index] ?? {};
    return {
      ...tier,
      destination: {
        ...tier.destination,
        ...(policy !== undefined && { policy }),
        ...(retryBudget !== undefined && { retryBudget }),
      },
    };
  });
  return { ...document, tiers };
}
