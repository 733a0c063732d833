/**
 * System store: the scenarios of the System view, which of them is shown, and which is drawn dashed
 * behind it (the ghost). An unchanged shipped scenario is stored by name, as in a link.
 */
import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { DocumentError, quote, RedriveError, systemClock } from "@redrive/core";
import {
  type CallsDocument,
  checkScenario,
  type PhaseDocument,
  type Report,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import { cancelRequests, sendRequest, whenIdle } from "../../worker/query.ts";
import { type ApplyState, FIRST_SEED, newSeed, type RunOf, type Seed } from "../view.ts";
import { canonical, isCalls, isSame, merged, tiersOf, unguarded } from "./document.ts";

type Entry = ScenarioDocument | string;

/** What is drawn behind: nothing, the same scenario without guards, or another entry by index. */
export type Ghost = "none" | "unguarded" | number;

const INITIAL: Entry = "metastable";

/** The ladder has seven entries; a longer list is hard to compare. */
export const MAX_ENTRIES = 12;

export const seed = signal<Seed>(FIRST_SEED);
export const entries = signal<readonly Entry[]>([INITIAL]);
export const shown = signal(0);
export const ghost = signal<Ghost>("unguarded");
/** The layer whose policy the controls change. */
const chosenLayer = signal(0);
/** The index of the selected phase; undefined if none is selected. */
export const chosenPhase = signal<number | undefined>(undefined);

export function documentOf(entry: Entry | undefined): ScenarioDocument {
  if (typeof entry !== "string") return entry ?? (scenarios[INITIAL as string] as ScenarioDocument);
  const shipped = Object.hasOwn(scenarios, entry) ? scenarios[entry] : undefined;
  if (shipped === undefined) {
    throw new RedriveError("INVALID_ARGUMENT", `unknown scenario ${quote(entry)}`);
  }
  return shipped;
}

export const current: ReadonlySignal<ScenarioDocument> = computed(() =>
  documentOf(entries.value[shown.value]),
);

/** The current scenario, if its model is calls. */
export const currentCalls: ReadonlySignal<CallsDocument | undefined> = computed(() =>
  isCalls(current.value) ? current.value : undefined,
);

export const phases: ReadonlySignal<readonly PhaseDocument[]> = computed(
  () => currentCalls.value?.timeline ?? [],
);

export const layer: ReadonlySignal<number> = computed(() => {
  const calls = currentCalls.value;
  return calls === undefined ? 0 : Math.min(chosenLayer.value, tiersOf(calls).length - 1);
});

/** The name of the current scenario if it is a shipped one; empty once it is changed. */
export const shippedName: ReadonlySignal<string> = computed(() => {
  const entry = entries.value[shown.value];
  return typeof entry === "string" ? entry : "";
});

/** The ghost, if it differs from the current scenario. */
export const ghostDocument: ReadonlySignal<ScenarioDocument | undefined> = computed(() => {
  const document = ghostOf(ghost.value);
  return document === undefined || isSame(document, current.value) ? undefined : document;
});

function ghostOf(choice: Ghost): ScenarioDocument | undefined {
  if (choice === "none") return undefined;
  if (choice === "unguarded") return currentCalls.value && unguarded(currentCalls.value);
  return choice < entries.value.length ? documentOf(entries.value[choice]) : undefined;
}

/** All error messages about the current scenario. */
export const problems: ReadonlySignal<readonly string[]> = computed(() =>
  checkScenario(current.value).map(({ message }) => message),
);

export function replace(document: ScenarioDocument): void {
  const entry = asEntry(document);
  entries.value = entries.value.map((one, index) => (index === shown.value ? entry : one));
}

/** Changes the current scenario. */
export function edit<T extends ScenarioDocument>(change: (document: T) => T): void {
  const before = current.value as T;
  const after = change(before);
  if (isSame(before, after)) return;
  replace(after);
}

export function editCalls(change: (document: CallsDocument) => CallsDocument): void {
  if (currentCalls.value !== undefined) edit(change);
}

/** By name if it equals a shipped scenario. A changed one loses the shipped description. */
function asEntry(document: ScenarioDocument): Entry {
  const shipped = document.name === undefined ? undefined : scenarios[document.name];
  if (shipped === undefined) return document;
  const bare = (one: ScenarioDocument) => merged<ScenarioDocument>(one, { description: undefined });
  if (isSame(bare(document), bare(shipped))) return document.name as string;
  return document.description === shipped.description ? bare(document) : document;
}

export function editPhases(change: (list: readonly PhaseDocument[]) => readonly PhaseDocument[]) {
  editCalls((document) => ({ ...document, timeline: change(document.timeline ?? []) }));
}

export function choosePreset(name: string): void {
  if (!Object.hasOwn(scenarios, name)) return;
  batch(() => {
    chosenPhase.value = undefined;
    chosenLayer.value = 0;
    entries.value = entries.value.map((one, index) => (index === shown.value ? name : one));
  });
}

export function chooseLayer(index: number): void {
  chosenLayer.value = index;
}

export function show(index: number): void {
  batch(() => {
    chosenPhase.value = undefined;
    if (ghost.value === index) ghost.value = "none";
    shown.value = index;
  });
}

/** Adds a copy of the current scenario to the list, to compare later changes with. */
export function keep(): void {
  const entry = entries.value[shown.value];
  if (entry === undefined || entries.value.length >= MAX_ENTRIES) return;
  batch(() => {
    entries.value = [...entries.value, entry];
    ghost.value = entries.value.length - 1;
  });
}

export function remove(removed: number): void {
  if (entries.value.length === 1) return;
  batch(() => {
    entries.value = entries.value.filter((_, index) => index !== removed);
    shown.value = indexAfter(shown.value, removed);
    if (ghost.value === removed) ghost.value = "none";
    else if (typeof ghost.value === "number") ghost.value = indexAfter(ghost.value, removed);
  });
}

function indexAfter(index: number, removed: number): number {
  return Math.max(0, index > removed || index === entries.value.length ? index - 1 : index);
}

export function systemRun(): RunOf<"system"> {
  return {
    view: "system",
    seed: seed.value,
    scenarios: entries.value,
    ...(shown.value > 0 && { shown: shown.value }),
    ...(ghost.value !== "unguarded" && { ghost: ghost.value }),
  };
}

export function openSystem(run: RunOf<"system">): ApplyState {
  const list = run.scenarios;
  if (list.length === 0 || list.length > MAX_ENTRIES) {
    const message = `a link must have 1 to ${MAX_ENTRIES} scenarios, got ${list.length}`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  for (const entry of list) {
    const found = checkScenario(documentOf(entry));
    if (found.length > 0) throw new DocumentError("INVALID_ARGUMENT", found);
  }
  return () =>
    fill(run.seed, list.map(normalize), indexIn(list, run.shown) ?? 0, ghostIn(list, run.ghost));
}

function normalize(entry: Entry): Entry {
  return typeof entry === "string" ? entry : asEntry(entry);
}

function indexIn(list: readonly Entry[], index: unknown): number | undefined {
  return Number.isInteger(index) && list[index as number] !== undefined
    ? (index as number)
    : undefined;
}

function ghostIn(list: readonly Entry[], value: unknown): Ghost {
  return value === "none" ? "none" : (indexIn(list, value) ?? "unguarded");
}

function fill(nextSeed: Seed, list: readonly Entry[], index: number, newGhost: Ghost): void {
  batch(() => {
    seed.value = nextSeed;
    entries.value = list;
    shown.value = index;
    ghost.value = newGhost;
    chosenPhase.value = undefined;
    chosenLayer.value = 0;
  });
}

export function resetSystem(): void {
  fill(FIRST_SEED, [INITIAL], 0, "unguarded");
}

export function reroll(): void {
  seed.value = newSeed(seed.value);
}

// Runs: the reports for the scenarios in the store. The current scenario runs first, then the
// ghost, then the other entries. Finished runs are not repeated.

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
