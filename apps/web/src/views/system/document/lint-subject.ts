/** Lint subject: what lint reads of a scenario, its layers or its one destination, and the way back. */
import type { DestinationDocument } from "@redrive/core";
import type { CallsDocument, LintContext, LintTiers } from "@redrive/simulator";
import { policyOf, serverOf, tiersOf } from "./document.ts";

type Subject = DestinationDocument | LintTiers;

/** With several layers, all of them: what multiplies is seen only together. */
export function lintSubjectOf(document: CallsDocument): Subject {
  const tiers = tiersOf(document);
  const policyAt = (place: number) => policyOf(document, place);
  if (tiers.length === 1) return { ...tiers[0]?.destination, policy: policyAt(0) };
  return {
    tiers: tiers.map(({ name, destination }, place) => ({
      ...(name !== undefined && { name }),
      policy: policyAt(place),
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

/** The scenario with what lint mended put back where it was read. */
export function withMended(document: CallsDocument, mended: Subject): CallsDocument {
  const tiers = tiersOf(document).map((tier, place) => {
    if (!("tiers" in mended)) return { ...tier, destination: mended };
    const { policy, retryBudget } = mended.tiers[place] ?? {};
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
