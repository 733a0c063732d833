/** Links: opens the simulator with a policy, a task or a destination of the service. */
import type { PolicyDocument } from "@redrive/core";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { DestinationHistory, DestinationView } from "../service/client.ts";
import { measuredScenario } from "./measured-scenario.ts";

const SEED = 1;
/** The first attempt of a task that has just failed says nothing about an outage. */
const MIN_OUTAGE_MS = 1000;
const MAX_OUTAGE_MS = 365 * 86_400_000;

function addressOf(run: SharedRun): string {
  return `./simulator#${encodeRun(run)}`;
}

/** `outageMs`: how long calls have failed so far, if known. */
export function curveAddress(policy: PolicyDocument, outageMs?: number): string {
  const { policyId: _, ...document } = policy;
  const isKnown = outageMs !== undefined && outageMs >= MIN_OUTAGE_MS;
  const outage = isKnown ? { outageMs: Math.min(MAX_OUTAGE_MS, Math.round(outageMs)) } : {};
  return addressOf({ view: "curve", seed: SEED, policy: document, ...outage });
}

export function systemAddress(
  destination: DestinationView,
  history: Pick<DestinationHistory, "counts">,
): string {
  return addressOf({
    view: "system",
    seed: SEED,
    scenarios: [measuredScenario(destination, history)],
  });
}

export function SimulatorLink({ address }: { readonly address: string }) {
  return (
    <a class="button" href={address}>
      Open in the simulator
    </a>
  );
}
