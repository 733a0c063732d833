/**
 * Simulate: runs a scenario with a seed and returns a report. The same seed gives the same report
 * in Node and in every browser, because nothing here reads a clock, uses another source of
 * randomness or depends on the platform.
 */
import { assertRange, type DestinationDocument, formatPercent, type Patience } from "@redrive/core";
import { createTrace, type OnProgress, type RunObserver } from "../engine/run.ts";
import { assertScenario, type CallsScenario, resolveCalls } from "../scenario/scenario.ts";
import type { ScenarioDocument } from "../scenario/scenario-document.ts";
import { coverageOf } from "../schedule/coverage.ts";
import { runCalls } from "./calls.ts";
import { runContention } from "./contention.ts";
import { isFleet, runFleet } from "./fleet.ts";
import { runQueue } from "./queue.ts";
import { type Figures, figuresOf, formatTenths, type Report, verdictOf } from "./report.ts";
import type { WorldRun } from "./tally.ts";

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
      const figures = callFigures(scenario, seed, watch);
      const report = complete(document.name, seed, figures, verdictOf(scenario, figures));
      return { ...report, ...coverageFor(scenario, seed) };
    }
  }
}

/** The figures of a run alone: a report has a verdict and a coverage as well, which take longer. */
function callFigures(
  scenario: CallsScenario,
  seed: number | string,
  watch: RunObserver = {},
): Figures {
  return figuresOf(runWorld(scenario, seed, watch));
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

// Survival: the share of calls that get through an outage when they share a destination, as the
// calls of one process do. `coverage` asks the policy alone; here the guards decide as well, so an
// empty retry budget or an open breaker ends calls that the policy would have repeated.

export interface SurvivalOptions {
  /** Calls of one process that fail at the same instant. 1 to 2000. */
  readonly calls: number;
  /** What a call does when a guard refuses an attempt. Default: fail-fast. */
  readonly patience?: Patience | undefined;
  /** Default: 1. */
  readonly seed?: number | string | undefined;
}

export interface Survival {
  /** The share of the calls that succeed. */
  readonly share: number;
  /** When the last call ended, in ms from the start of the outage. */
  readonly doneAtMs: number;
  /** Attempts of all calls of a process. */
  readonly attempts: number;
}

/** More calls at once are simulated as this number: the share hardly changes. */
export const MAX_SURVIVAL_CALLS = 2000;

/** Processes are simulated until they have made so many calls: the error is below 5 percentage points. */
const MIN_CALLS = 400;

/** Simulates an outage in which every attempt is refused at once, with guards that all calls share. */
export function survival(
  destination: DestinationDocument,
  outageMs: number,
  { calls, patience = "fail-fast", seed = 1 }: SurvivalOptions,
): Survival {
  assertRange("calls", calls, 1, MAX_SURVIVAL_CALLS);
  assertRange("outageMs", outageMs, 0, 86_400_000);
  const scenario = resolveCalls({
    clients: { kind: "CLOSED", count: calls, jobs: 1 },
    guards: "SHARED",
    patience,
    tiers: [{ destination }],
    timeline: outageMs > 0 ? [{ kind: "OUTAGE", atMs: 0, forMs: outageMs }] : [],
    horizonMs: 86_400_000,
  });
  const processes = Math.ceil(MIN_CALLS / calls);
  const total = { succeeded: 0, doneAtMs: 0, attempts: 0 };
  for (let process = 0; process < processes; process++) {
    const figures = callFigures(scenario, `${seed}/${process}`);
    total.succeeded += figures.succeeded;
    total.attempts += figures.attempts;
    total.doneAtMs = Math.max(total.doneAtMs, figures.doneAtMs);
  }
  const { succeeded, doneAtMs, attempts } = total;
  return { share: succeeded / (processes * calls), doneAtMs, attempts: attempts / processes };
}
