/**
 * Runs: what the worker made of the scenarios in the store. The one on the stage is asked for first,
 * then what is drawn behind it, then the rest of the list; what was run before is not run again.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { checkScenario, type Report, type ScenarioDocument } from "@redrive/simulator";
import { cancelRequests, sendRequest } from "../../../worker/client.ts";
import { whenIdle } from "../../../worker/query.ts";
import type { Seed } from "../../seed.ts";
import { canonical } from "../document/document.ts";
import { current, documentOf, entries, ghostDocument, seed, shown } from "./system-store.ts";

/** A report, or why there is none. */
type Done = { readonly report: Report } | { readonly problem: string };

/** Reports kept beside those in sight, for what is switched to and fro; the largest are 160 kB. */
const MAX_KEPT = 40;

/** A run that takes longer says so. */
const PROGRESS_AFTER_MS = 300;

/** Questions about the scenario on the stage: of these alone the progress is shown. */
const STAGE_LANE = "system";

const done = signal<ReadonlyMap<string, Done>>(new Map());
/** The lane of each run that is under way or waits, by its key. */
const asked = new Map<string, { readonly lane: string }>();
const progressed = signal(0);

/** What is told about a scenario makes no other run of it. */
function keyOf(document: ScenarioDocument, withSeed: Seed): string {
  return canonical([withSeed, { ...document, description: undefined }]);
}

interface Wanted {
  readonly lane: string;
  readonly document: ScenarioDocument;
}

function wanted(): readonly Wanted[] {
  const others = entries.value.filter((_, place) => place !== shown.value);
  return [
    { lane: STAGE_LANE, document: current.value },
    ...(ghostDocument.value === undefined
      ? []
      : [{ lane: "system-ghost", document: ghostDocument.value }]),
    ...others.map((entry, index) => ({ lane: `system-${index}`, document: documentOf(entry) })),
  ];
}

function requestMissing(): void {
  const known = done.value;
  const theSeed = seed.value;
  const list = wanted();
  cancelAllExcept(new Set(list.map(({ document }) => keyOf(document, theSeed))));
  for (const { lane, document } of list) {
    const key = keyOf(document, theSeed);
    if (known.has(key) || asked.has(key) || checkScenario(document).length > 0) continue;
    run(lane, document, theSeed, key);
  }
}

/** A run may take minutes, and others wait behind it. */
function cancelAllExcept(needed: ReadonlySet<string>): void {
  for (const [key, { lane }] of asked) {
    if (needed.has(key)) continue;
    asked.delete(key);
    cancelRequests(lane);
  }
}

function run(lane: string, scenario: ScenarioDocument, theSeed: Seed, key: string): void {
  const mine = { lane };
  asked.set(key, mine);
  const end = (result: Done | undefined) => {
    // It may have been left, and asked again since: that question is another.
    if (asked.get(key) === mine) asked.delete(key);
    storeResult(key, result);
  };
  const tell = (share: number) => {
    if (lane === STAGE_LANE) progressed.value = share;
  };
  sendRequest(lane, "simulate", { scenario, seed: theSeed }, tell).then(
    (report) => end(report && { report }),
    (error: Error) => end({ problem: error.message }),
  );
}

/** A question that a newer one displaced may be wanted again elsewhere: the list is gone over anew. */
function storeResult(key: string, result: Done | undefined): void {
  const needed = new Set(wanted().map(({ document }) => keyOf(document, seed.value)));
  const all = [...done.value];
  const kept = all.filter(([one], place) => needed.has(one) || place >= all.length - MAX_KEPT);
  done.value = new Map(result === undefined ? kept : [...kept, [key, result]]);
}

function doneOf(document: ScenarioDocument | undefined): Done | undefined {
  return document && done.value.get(keyOf(document, seed.value));
}

export function reportOf(document: ScenarioDocument | undefined): Report | undefined {
  const found = doneOf(document);
  return found && "report" in found ? found.report : undefined;
}

let stop = () => {};
let last: Report | undefined;
let lastGhost: Report | undefined;

/** Of the scenario on the stage; the one before stays until it comes. Runs for as long as it is looked at. */
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

/** Of what is drawn behind; while a control is moved, the one before stays in the same way. */
export const ghostReport: ReadonlySignal<Report | undefined> = computed(() => {
  const document = ghostDocument.value;
  if (document === undefined) return undefined;
  lastGhost = reportOf(document) ?? lastGhost;
  return lastGhost?.scenario === document.name ? lastGhost : undefined;
});

function isAwaited(document: ScenarioDocument | undefined): boolean {
  return (
    document !== undefined && checkScenario(document).length === 0 && doneOf(document) === undefined
  );
}

/** The report in sight is not yet that of the scenario on the stage. */
export const isBusy: ReadonlySignal<boolean> = computed(() => isAwaited(current.value));

/** Something in the drawing is not yet what belongs there: the run, or the one behind it. */
export const isPlotBusy: ReadonlySignal<boolean> = computed(
  () => isBusy.value || isAwaited(ghostDocument.value),
);

/** Some run of the comparison is still to come. */
export const isCompareBusy: ReadonlySignal<boolean> = computed(() =>
  wanted().some(({ document }) => isAwaited(document)),
);

/** The scenario on the stage has no report and gets none: the one in sight is another's. */
export const isStale: ReadonlySignal<boolean> = computed(
  () => !isBusy.value && reportOf(current.value) === undefined,
);

/** The report of the scenario on the stage, with all that is drawn, once it is there. */
export async function currentReport(): Promise<Report> {
  await whenIdle(isPlotBusy);
  const found = reportOf(current.value);
  if (found === undefined) throw new Error(runProblem.peek() || "the scenario cannot be run");
  return found;
}

export const runProblem: ReadonlySignal<string> = computed(() => {
  const found = doneOf(current.value);
  return found && "problem" in found ? found.problem : "";
});

const slow = signal(false);
export const isSlow: ReadonlySignal<boolean> = slow;

/** Of the run on the stage, while it is under way; 0 to 1. */
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
