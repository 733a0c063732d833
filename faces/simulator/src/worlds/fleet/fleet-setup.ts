/** Fleet setup: what both fleet engines start with, and the result that both return. */
import { createTally, fairnessOfDurations, type Tally } from "../../measure/tally.ts";
import type { WorldRun } from "../../measure/world-run.ts";
import type { CallsScenario, Tier } from "../../scenario/scenario.ts";
import type { ClosedClients } from "../../scenario/scenario-document.ts";
import { type Timeline, timelineOf } from "../tier/timeline.ts";

export interface FleetSetup {
  readonly clients: ClosedClients;
  readonly tier: Tier;
  readonly timeline: Timeline;
  readonly tally: Tally;
}

/** A fleet has closed clients and one tier: see `isFleet`. */
export function setUpFleet(scenario: CallsScenario): FleetSetup {
  const { clients, tiers, horizonMs, windowMs } = scenario;
  const timeline = timelineOf(scenario.timeline, 0, 0);
  return {
    clients: clients as ClosedClients,
    tier: tiers[0] as Tier,
    timeline,
    tally: createTally({ horizonMs, windowMs, triggerEndMs: timeline.endMs }),
  };
}

export function fleetRun({ tally, timeline }: Pick<FleetSetup, "tally" | "timeline">): WorldRun {
  return {
    engine: "fleet",
    tally,
    fairness: fairnessOfDurations(tally),
    triggerStartMs: timeline.startMs,
    triggerEndMs: timeline.endMs,
  };
}
