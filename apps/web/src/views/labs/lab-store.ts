/**
 * Lab store: which labs are shown, with which seed, and what came out. Results are kept for the
 * session; what is missing runs one lab after another, until it is stopped.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { nearest, quote, systemClock } from "@redrive/core";
import type { LabReport } from "@redrive/simulator";
import { FIRST_SEED, type Seed } from "../../app/seed.ts";
import type { LabEntry } from "../../worker/lab-requests.ts";
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
const problem = signal("");
/** Nothing runs before somebody looks. */
const isOpen = signal(false);

/** Every lab there is; empty until the worker has told. */
export const entries: ReadonlySignal<readonly LabEntry[]> = list;
export const runningId: ReadonlySignal<string | undefined> = running;
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
  const near = nearest(unknown, ids);
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

/** What is to run now: the first that is shown and missing. */
const due = computed(() => (isOpen.value && !isStopped.value ? next.value : undefined));

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
  isStopped.value = true;
}

export function resume(): void {
  problem.value = "";
  isStopped.value = false;
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
  try {
    const report = await askLabs("lab", { id, options: { seed: ofSeed } });
    running.value = undefined;
    const tookMs = systemClock.monotonicMs() - startedMs;
    runs.value = new Map(runs.value).set(keyOf(id, ofSeed), { report, tookMs });
  } catch (error) {
    running.value = undefined;
    problem.value = (error as Error).message;
    isStopped.value = true;
  }
}
