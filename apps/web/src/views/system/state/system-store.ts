/**
 * Store: the scenarios of the System view, which of them is on the stage, and what is drawn behind
 * it. A scenario that ships untouched is kept by its name, as in a link.
 */
import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import { DocumentError, quote, RedriveError } from "@redrive/core";
import {
  type CallsDocument,
  checkScenario,
  type PhaseDocument,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import { FIRST_SEED, newSeed, type Seed } from "../../seed.ts";
import type { ApplyState, RunOf } from "../../view.ts";
import { isCalls, isSame, merged, tiersOf, unguarded } from "../document/document.ts";

export type Entry = ScenarioDocument | string;

/** What is drawn behind: nothing, the same without guards, or another entry by its place. */
export type Ghost = "none" | "unguarded" | number;

const OPENING: Entry = "metastable";

/** The ladder has seven rungs; many more rows are no comparison. */
export const MAX_ENTRIES = 12;

export const seed = signal<Seed>(FIRST_SEED);
export const entries = signal<readonly Entry[]>([OPENING]);
export const shown = signal(0);
export const ghost = signal<Ghost>("unguarded");
/** The layer whose policy the controls change. */
const chosenLayer = signal(0);
/** The phase whose numbers the form shows, by place; undefined: none. */
export const chosenPhase = signal<number | undefined>(undefined);

export function documentOf(entry: Entry | undefined): ScenarioDocument {
  if (typeof entry !== "string") return entry ?? (scenarios[OPENING as string] as ScenarioDocument);
  const shipped = Object.hasOwn(scenarios, entry) ? scenarios[entry] : undefined;
  if (shipped === undefined) {
    throw new RedriveError("INVALID_ARGUMENT", `unknown scenario ${quote(entry)}`);
  }
  return shipped;
}

export const current: ReadonlySignal<ScenarioDocument> = computed(() =>
  documentOf(entries.value[shown.value]),
);

/** The scenario on the stage, if it is one of calls. */
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

/** The name of the shipped scenario on the stage; empty once it is changed. */
export const shippedName: ReadonlySignal<string> = computed(() => {
  const entry = entries.value[shown.value];
  return typeof entry === "string" ? entry : "";
});

/** What is drawn behind, if it is anything else than what is in front. */
export const ghostDocument: ReadonlySignal<ScenarioDocument | undefined> = computed(() => {
  const document = ghostOf(ghost.value);
  return document === undefined || isSame(document, current.value) ? undefined : document;
});

function ghostOf(choice: Ghost): ScenarioDocument | undefined {
  if (choice === "none") return undefined;
  if (choice === "unguarded") return currentCalls.value && unguarded(currentCalls.value);
  return choice < entries.value.length ? documentOf(entries.value[choice]) : undefined;
}

/** Everything wrong with the scenario on the stage, in sentences. */
export const problems: ReadonlySignal<readonly string[]> = computed(() =>
  checkScenario(current.value).map(({ message }) => message),
);

export function replace(document: ScenarioDocument): void {
  const entry = asEntry(document);
  entries.value = entries.value.map((one, place) => (place === shown.value ? entry : one));
}

/** Changes the scenario on the stage. Its description told of what it was. */
export function edit<T extends ScenarioDocument>(change: (document: T) => T): void {
  const before = current.value as T;
  const after = change(before);
  if (isSame(before, after)) return;
  replace(after);
}

export function editCalls(change: (document: CallsDocument) => CallsDocument): void {
  if (currentCalls.value !== undefined) edit(change);
}

/** By name if it ships just so; with its description only then. */
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
    entries.value = entries.value.map((one, place) => (place === shown.value ? name : one));
  });
}

export function chooseLayer(index: number): void {
  chosenLayer.value = index;
}

export function show(place: number): void {
  batch(() => {
    chosenPhase.value = undefined;
    if (ghost.value === place) ghost.value = "none";
    shown.value = place;
  });
}

/** Keeps the scenario on the stage as it is, to be compared with what it becomes. */
export function keep(): void {
  const entry = entries.value[shown.value];
  if (entry === undefined || entries.value.length >= MAX_ENTRIES) return;
  batch(() => {
    entries.value = [...entries.value, entry];
    ghost.value = entries.value.length - 1;
  });
}

export function remove(place: number): void {
  if (entries.value.length === 1) return;
  batch(() => {
    entries.value = entries.value.filter((_, index) => index !== place);
    shown.value = placeAfter(shown.value, place);
    if (ghost.value === place) ghost.value = "none";
    else if (typeof ghost.value === "number") ghost.value = placeAfter(ghost.value, place);
  });
}

function placeAfter(place: number, removed: number): number {
  return Math.max(0, place > removed || place === entries.value.length ? place - 1 : place);
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
    const wanted = `1 to ${MAX_ENTRIES} scenarios, not ${list.length}`;
    throw new RedriveError("INVALID_ARGUMENT", `a link holds ${wanted}`);
  }
  for (const entry of list) {
    const found = checkScenario(documentOf(entry));
    if (found.length > 0) throw new DocumentError("INVALID_ARGUMENT", found);
  }
  return () =>
    fill(run.seed, list.map(shippedOr), placeIn(list, run.shown) ?? 0, ghostIn(list, run.ghost));
}

function shippedOr(entry: Entry): Entry {
  return typeof entry === "string" ? entry : asEntry(entry);
}

function placeIn(list: readonly Entry[], place: unknown): number | undefined {
  return Number.isInteger(place) && list[place as number] !== undefined
    ? (place as number)
    : undefined;
}

function ghostIn(list: readonly Entry[], value: unknown): Ghost {
  return value === "none" ? "none" : (placeIn(list, value) ?? "unguarded");
}

function fill(nextSeed: Seed, list: readonly Entry[], place: number, behind: Ghost): void {
  batch(() => {
    seed.value = nextSeed;
    entries.value = list;
    shown.value = place;
    ghost.value = behind;
    chosenPhase.value = undefined;
    chosenLayer.value = 0;
  });
}

export function resetSystem(): void {
  fill(FIRST_SEED, [OPENING], 0, "unguarded");
}

export function reroll(): void {
  seed.value = newSeed(seed.value);
}
