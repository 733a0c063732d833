/**
 * Simulate: runs a scenario with a seed and returns a report. The same seed gives the same report
 * in Node and in every browser, because nothing here reads a clock, uses another source of
 * randomness or depends on the platform.
 */
import { formatPercent } from "@redrive/core";
import type { OnProgress, RunObserver } from "../events/progress.ts";
import { createTrace } from "../events/trace.ts";
import { type Figures, figuresOf, type Report } from "../measure/report.ts";
import { formatTenths, verdictOf } from "../measure/verdict.ts";
import type { WorldRun } from "../measure/world-run.ts";
import { assertScenario, type CallsScenario, resolveCalls } from "../scenario/scenario.ts";
import type { ScenarioDocument } from "../scenario/scenario-document.ts";
import { coverageOf } from "../schedule/coverage.ts";
import { runCalls } from "../worlds/calls/calls.ts";
import { runContention } from "../worlds/contention.ts";
import { runFleet } from "../worlds/fleet/fleet.ts";
import { isFleet } from "../worlds/fleet/fleet-server.ts";
import { runQueue } from "../worlds/queue.ts";

export interface SimulateOptions {
  /** Default: 1. */
  readonly seed?: number | string;
  /**
   * Called about every hundred thousand events with the share of the run that is done, 0 to 1.
   * Fleets and contention never call it, because all but the largest take less than a second.
   */
  readonly onProgress?: OnProgress;
}

/** Runs a scenario. Throws `INVALID_ARGUMENT` with all problems of the document. */
export function simulate(document: ScenarioDocument, options: SimulateOptions = {}): Report {
  const { seed = 1, onProgress } = options;
  return reportOn(assertScenario(document), seed, { onProgress });
}

/**
 * A hash over every event of a run, as eight hexadecimal digits. It is the same in all JavaScript
 * engines.
 */
export function traceHash(document: ScenarioDocument, seed: number | string = 1): string {
  const trace = createTrace();
  reportOn(assertScenario(document), seed, { trace });
  return trace.hash();
}

function reportOn(document: ScenarioDocument, seed: number | string, watch: RunObserver): Report {
  switch (document.world) {
    case "CONTENTION": {
      const figures = figuresOf(runContention(document, { seed, trace: watch.trace }));
      return complete(document.name, seed, figures, contentionVerdict(figures));
    }
    case "QUEUE": {
      const figures = figuresOf(runQueue(document, seed, watch));
      return complete(document.name, seed, figures, queueVerdict(figures));
    }
    default: {
      const scenario = resolveCalls(document);
      const figures = figuresOf(runWorld(scenario, seed, watch));
      const report = complete(document.name, seed, figures, verdictOf(scenario, figures));
      return { ...report, ...coverageFor(scenario, seed) };
    }
  }
}

function runWorld(scenario: CallsScenario, seed: number | string, watch: RunObserver): WorldRun {
  return isFleet(scenario)
    ? runFleet(scenario, seed, watch.trace)
    : runCalls(scenario, seed, watch);
}

function complete(
  name: string | undefined,
  seed: number | string,
  figures: Figures,
  verdict: string,
): Report {
  return { scenario: name ?? "scenario", seed, ...figures, verdict };
}

/** The coverage of the longest outage in the timeline by the first tier's policy. */
function coverageFor(scenario: CallsScenario, seed: number | string): { coverage?: number } {
  const outages = scenario.timeline.filter(({ kind }) => kind === "OUTAGE" || kind === "FAILOVER");
  const [tier] = scenario.tiers;
  if (outages.length === 0 || tier === undefined) return {};
  const longestMs = Math.max(...outages.map((phase) => phase.forMs));
  return { coverage: coverageOf(tier.destination.policy, longestMs, { seed, samples: 10_000 }) };
}

function contentionVerdict({ calls, attempts, doneAtMs }: Figures): string {
  return `${calls} writers need ${attempts} writes and ${formatTenths(doneAtMs)}`;
}

function queueVerdict({ duplicateShare = 0, deadLetterShare = 0 }: Figures): string {
  const excess = deadLetterShare > 0.01 ? ", more than the healthy 1 %" : "";
  return `${formatPercent(duplicateShare)} of the runs are duplicates; ${formatPercent(deadLetterShare)} of the messages are dead letters${excess}`;
}
