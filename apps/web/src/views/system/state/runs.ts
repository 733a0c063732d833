/**
 * Runs: the reports for the scenarios in the store. The current scenario runs first, then the ghost,
 * then the other entries. Finished runs are not repeated.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { checkScenario, type Report, type ScenarioDocument } from "@redrive/simulator";
import { cancelRequests, sendRequest } from "../../../worker/client.ts";
import { whenIdle } from "../../../worker/query.ts";
import type { Seed } from "../../seed.ts";
import { canonical } from "../document/document.ts";
import { current, documentOf, entries, ghostDocument, seed, shown } from "./system-store.ts";

/** A report, or the reason why there is none. */
type RunResult = { readonly report: Report } | { readonly problem: string };

/** The number of reports kept for switching back; the largest are 160 kB. */
const MAX_KEPT = 40;

/** A run that takes longer shows its progress. */
const PROGRESS_AFTER_MS = 300;

/** The lane of the current scenario, the only one whose progress is shown. */
const CURRENT_LANE = "system";

const results = signal<ReadonlyMap<string, RunResult>>(new Map());
/** The lane of each running or waiting request, by key. */
const requested = new Map<string, { readonly lane: string }>();
const progressed = signal(0);

/** The description does not affect a run, so it is not part of the key. */
function keyOf(document: ScenarioDocument, withSeed: Seed): string {
  return canonical([withSeed, { ...document, description: undefined }]);
}

interface Wanted {
  readonly lane: string;
  readonly document: ScenarioDocument;
}

function wanted(): readonly Wanted[] {
  const others = entries.value.filter((_, index) => index !== shown.value);
  return [
    { lane: CURRENT_LANE, document: current.value },
    ...(ghostDocument.value === undefined
      ? []
      : [{ lane: "system-ghost", document: ghostDocument.value }]),
    ...others.map((entry, index) => ({ lane: `system-${index}`, document: documentOf(entry) })),
  ];
}

function requestMissing(): void {
  const known = results.value;
  const theSeed = seed.value;
  const list = wanted();
  cancelAllExcept(new Set(list.map(({ document }) => keyOf(document, theSeed))));
  for (const { lane, document } of list) {
    const key = keyOf(document, theSeed);
    if (known.has(key) || requested.has(key) || checkScenario(document).length > 0) continue;
    run(lane, document, theSeed, key);
  }
}

/** A run can take minutes and block the others. */
function cancelAllExcept(needed: ReadonlySet<string>): void {
  for (const [key, { lane }] of requested) {
    if (needed.has(key)) continue;
    requested.delete(key);
    cancelRequests(lane);
  }
}

function run(lane: string, scenario: ScenarioDocument, theSeed: Seed, key: string): void {
  const request = { lane };
  requested.set(key, request);
  const end = (result: RunResult | undefined) => {
    // A canceled run may have been requested again, as another request.
    if (requested.get(key) === request) requested.delete(key);
    storeResult(key, result);
  };
  const onProgress = (share: number) => {
    if (lane === CURRENT_LANE) progressed.value = share;
  };
  sendRequest(lane, "simulate", { scenario, seed: theSeed }, onProgress).then(
    (report) => end(report && { report }),
    (error: Error) => end({ problem: error.message }),
  );
}

/** Setting `results` requests missing runs again, because a replaced request may still be needed. */
function storeResult(key: string, result: RunResult | undefined): void {
  const needed = new Set(wanted().map(({ document }) => keyOf(document, seed.value)));
  const all = [...results.value];
  const kept = all.filter(([one], index) => needed.has(one) || index >= all.length - MAX_KEPT);
  results.value = new Map(result === undefined ? kept : [...kept, [key, result]]);
}

function resultOf(document: ScenarioDocument | undefined): RunResult | undefined {
  return document && results.value.get(keyOf(document, seed.value));
}

export function reportOf(document: ScenarioDocument | undefined): Report | undefined {
  const found = resultOf(document);
  return found && "report" in found ? found.report : undefined;
}

let stop = () => {};
let last: Report | undefined;
let lastGhost: Report | undefined;

/** The report of the current scenario; the previous one stays until then. Runs only while watched. */
export const report: ReadonlySignal<Report | undefined> = computed(
  () => {
    last = reportOf(current.value) ?? last;
    return last;
  },
  {
    watched: () => {
      stop = effect(requestMissing);
    },
    unwatched: () => {
      stop();
      cancelAllExcept(new Set());
    },
  },
);

/** The report of the ghost; the previous one stays until then. */
export const ghostReport: ReadonlySignal<Report | undefined> = computed(() => {
  const document = ghostDocument.value;
  if (document === undefined) return undefined;
  lastGhost = reportOf(document) ?? lastGhost;
  return lastGhost?.scenario === document.name ? lastGhost : undefined;
});

function isPending(document: ScenarioDocument | undefined): boolean {
  return (
    document !== undefined &&
    checkScenario(document).length === 0 &&
    resultOf(document) === undefined
  );
}

/** True while the shown report does not belong to the current scenario. */
export const isBusy: ReadonlySignal<boolean> = computed(() => isPending(current.value));

/** True while the shown run or the ghost is outdated. */
export const isPlotBusy: ReadonlySignal<boolean> = computed(
  () => isBusy.value || isPending(ghostDocument.value),
);

/** True while a run of the comparison is pending. */
export const isCompareBusy: ReadonlySignal<boolean> = computed(() =>
  wanted().some(({ document }) => isPending(document)),
);

/** True if the current scenario has no report and gets none, so that the shown one is outdated. */
export const isStale: ReadonlySignal<boolean> = computed(
  () => !isBusy.value && reportOf(current.value) === undefined,
);

/** Resolves with the report of the current scenario once everything in the chart is current. */
export async function currentReport(): Promise<Report> {
  await whenIdle(isPlotBusy);
  const found = reportOf(current.value);
  if (found === undefined) throw new Error(runProblem.peek() || "the scenario cannot be run");
  return found;
}

export const runProblem: ReadonlySignal<string> = computed(() => {
  const found = resultOf(current.value);
  return found && "problem" in found ? found.problem : "";
});

const slow = signal(false);
export const isSlow: ReadonlySignal<boolean> = slow;

/** The progress of the current run, 0 to 1. */
export const progress: ReadonlySignal<number> = progressed;

effect(() => {
  if (!isBusy.value) {
    slow.value = false;
    progressed.value = 0;
    return undefined;
  }
  return systemClock.alarm(PROGRESS_AFTER_MS, () => {
    slow.value = true;
  });
});
