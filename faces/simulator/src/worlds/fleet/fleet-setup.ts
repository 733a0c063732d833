/** Fleet setup: what both fleet engines start with, and their result. */
import { createTally, fairnessOfDurations, type Tally } from "../../measure/tally.ts";
import type { WorldRun } from "../../measure/world-run.ts";
import type { CallsScenario, Tier } from "../../scenario/scenario.ts";
import type { ClosedClients } from "../../scenario/scenario-document.ts";
import { type Timeline, timelineOf } from "../client-server/timeline.ts";

export interface FleetSetup {
  readonly clients: ClosedClients;
  readonly tier: Tier;
  readonly timeline: Timeline;
  readonly tally: Tally;
}

/** Runs a fleet, which has closed clients and one tier: see `isFleet`. */
export function fleetRun(scenario: CallsScenario, run: (setup: FleetSetup) => void): WorldRun {
  const { clients, tiers, horizonMs, windowMs } = scenario;
  const timeline = timelineOf(scenario.timeline, 0, 0);
  const { startMs: triggerStartMs, endMs: triggerEndMs } = timeline;
  const tally = createTally({ horizonMs, windowMs, triggerEndMs });
  run({ clients: clients as ClosedClients, tier: tiers[0] as Tier, timeline, tally });
  const fairness = fairnessOfDurations(tally);
  return { engine: "fleet", tally, fairness, triggerStartMs, triggerEndMs };
}
