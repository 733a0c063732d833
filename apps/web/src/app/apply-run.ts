/**
 * Apply run: hands what the simulator shows over to the dashboard, which asks where to apply it and
 * shows the difference. Nothing is changed before the user saves it there.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import type { CallsDocument, ScenarioDocument } from "@redrive/simulator";
import type { SharedRun } from "@redrive/simulator/share";
import { loadSharedPolicy } from "../components/policy-picker.tsx";

type CurveRun = Extract<SharedRun, { readonly view: "curve" }>;
type SystemRun = Extract<SharedRun, { readonly view: "system" }>;

/** The runs that have something to apply. */
export type AppliedRun = CurveRun | SystemRun;

export async function applyRun(run: AppliedRun): Promise<void> {
  const draft = run.view === "curve" ? await policyOf(run) : await destinationOf(run);
  const query = new URLSearchParams({ draft: JSON.stringify(draft) });
  location.assign(`./policies?${query}`);
}

/** The id of a preset would be a conflict. */
async function policyOf({ policy }: CurveRun): Promise<PolicyDocument> {
  const { policyId: _, ...document } = await loadSharedPolicy(policy);
  return document;
}

/** The innermost caller: its server is the one that fails. */
async function destinationOf({ scenarios, shown = 0 }: SystemRun): Promise<DestinationDocument> {
  const chosen = scenarios[shown];
  const document = typeof chosen === "string" ? await namedScenario(chosen) : chosen;
  const { tiers = [] } = (document ?? {}) as CallsDocument;
  return tiers.at(-1)?.destination ?? {};
}

async function namedScenario(name: string): Promise<ScenarioDocument | undefined> {
  const { scenarios } = await import("@redrive/simulator");
  return (scenarios as Readonly<Record<string, ScenarioDocument>>)[name];
}
