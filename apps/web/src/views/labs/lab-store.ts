/**
 * Lab store: which labs are shown, with which seed, and what came out. Results are kept for the
 * session; what is missing runs one lab after another, until it is stopped.
 */
import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { formatDuration, nearestName, quote, systemClock } from "@redrive/core";
import type { LabReport } from "@redrive/simulator";
import type { LabEntry } from "../../worker/lab-requests.ts";
import { FIRST_SEED, type Seed } from "../seed.ts";
import { askLabs, stopLabs } from "./lab-worker.ts";

/** A lab's report and how long it took. */
export interface LabRun {
  readonly report: LabReport;
  readonly tookMs: number;
}

/** Ids as a link holds them; none stands for all. */
export const wanted = signal<readonly string[]>([]);
export const seed = signal<Seed>(FIRST_SEED);
/** Set by the reader; anything newly wanted starts again. */
export const isStopped = signal(false);

const list = signal<readonly LabEntry[]>([]);
const runs = signal<ReadonlyMap<string, LabRun>>(new Map());
const running = signal<string | undefined>(undefined);
const ranMs = signal(0);
const problem = signal("");
/** The one that somebody asked for by itself; when it is done, nothing follows. */
const alone = signal<string | undefined>(undefined);
/** Nothing runs before somebody looks. */
const isOpen = signal(false);

/** Every lab there is; empty until the worker has told. */
export const entries: ReadonlySignal<readonly LabEntry[]> = list;
export const runningId: ReadonlySignal<string | undefined> = running;
/** How long it has been running, in words, once a second; the first one is not worth telling. */
export const runningWords: ReadonlySignal<string> = computed(() =>
  ranMs.value < 1000
    ? "running…"
    : `running, ${formatDuration(Math.floor(ranMs.value / 1000) * 1000)}`,
);
/** What went wrong, or empty. */
export const labProblem: ReadonlySignal<string> = problem;

/** The labs on the stage, in the order of the list. */
export const shown: ReadonlySignal<readonly LabEntry[]> = computed(() =>
  wanted.value.length === 0 ? list.value : list.value.filter(({ id }) => wanted.value.includes(id)),
);

/** What is wrong with the ids of a link, in a sentence, or empty. */
export const unknownWords: ReadonlySignal<string> = computed(() => {
  const ids = list.value.map(({ id }) => id);
  const unknown = wanted.value.find((id) => ids.length > 0 && !ids.includes(id));
  if (unknown === undefined) return "";
  const near = nearestName(unknown, ids);
  const hint = near === undefined ? "" : ` Did you mean ${quote(near)}?`;
  return `There is no lab ${quote(unknown)}.${hint}`;
});

const keyOf = (id: string, ofSeed: Seed) => JSON.stringify([id, ofSeed]);

/** With the present seed; undefined until it has run. */
export function runOf(id: string): LabRun | undefined {
  return runs.value.get(keyOf(id, seed.value));
}

/** Of the labs on the stage, those that have run. */
export const doneRuns: ReadonlySignal<readonly LabRun[]> = computed(() =>
  shown.value.flatMap(({ id }) => runOf(id) ?? []),
);

const next = computed(() => shown.value.find(({ id }) => runOf(id) === undefined)?.id);

/** What is to run now: the one that is wanted alone, or the first that is shown and missing. */
const due = computed(() => {
  if (!isOpen.value) return undefined;
  const id = alone.value;
  if (id !== undefined) return runOf(id) === undefined ? id : undefined;
  return isStopped.value ? undefined : next.value;
});

/** Something that stands on the stage has still to run, and will. */
export const isBusy: ReadonlySignal<boolean> = computed(
  () => problem.value === "" && (list.value.length === 0 || due.value !== undefined),
);

export function startLabs(): void {
  isOpen.value = true;
  if (list.value.length > 0) return;
  askLabs("labs", {}).then(
    (all) => {
      list.value = all;
    },
    (error: Error) => {
      problem.value = error.message;
    },
  );
}

export function stop(): void {
  batch(() => {
    alone.value = undefined;
    isStopped.value = true;
  });
}

export function resume(): void {
  batch(() => {
    problem.value = "";
    alone.value = undefined;
    isStopped.value = false;
  });
}

/** Runs this lab now and no other after it; what was running is ended. */
export function runAlone(id: string): void {
  batch(() => {
    problem.value = "";
    isStopped.value = true;
    alone.value = id;
  });
}

/** A lab under way that is no longer due is ended: another seed, another choice, or Stop. */
effect(() => {
  const id = due.value;
  const ofSeed = seed.value;
  if (id === undefined) return;
  void runOne(id, ofSeed);
  return () => {
    if (running.peek() === undefined) return;
    running.value = undefined;
    stopLabs();
  };
});

async function runOne(id: string, ofSeed: Seed): Promise<void> {
  running.value = id;
  const startedMs = systemClock.monotonicMs();
  const elapsedMs = () => systemClock.monotonicMs() - startedMs;
  cancelTick();
  tick(elapsedMs);
  try {
    const report = await askLabs("lab", { id, options: { seed: ofSeed } });
    running.value = undefined;
    const tookMs = elapsedMs();
    runs.value = new Map(runs.value).set(keyOf(id, ofSeed), { report, tookMs });
  } catch (error) {
    running.value = undefined;
    problem.value = (error as Error).message;
    stop();
  }
}

let cancelTick = () => {};

/** Tells the seconds for as long as a lab runs. */
function tick(elapsedMs: () => number): void {
  ranMs.value = elapsedMs();
  cancelTick = systemClock.alarm(1000, () => {
    if (running.peek() !== undefined) tick(elapsedMs);
  });
}
