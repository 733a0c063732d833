/**
 * Lab store: the shown labs, the seed and the results. Results are kept for the session. The labs that
 * the reader looks at run one after another: the chosen ones, or else those whose panel is open.
 */
import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { formatDuration, nearestName, quote, systemClock } from "@redrive/core";
import type { LabReport } from "@redrive/simulator";
import type { LabEntry } from "../../worker/lab-requests.ts";
import type {
  Input,
  Output,
  RequestKind,
  WorkerRequest,
  WorkerResponse,
} from "../../worker/query.ts";
import { FIRST_SEED, type Seed } from "../view.ts";

/** The report of a lab and its run time. */
export interface LabRun {
  readonly report: LabReport;
  readonly tookMs: number;
}

/** The chosen lab ids; empty means all. */
export const wanted = signal<readonly string[]>([]);
export const seed = signal<Seed>(FIRST_SEED);
/** The labs whose panel is open. */
const openIds = signal<ReadonlySet<string>>(new Set());
/** True if the reader asked for all labs. */
export const isAllWanted = signal(false);
/** True after Stop; choosing labs starts again. */
export const isStopped = signal(false);

const list = signal<readonly LabEntry[]>([]);
const runs = signal<ReadonlyMap<string, LabRun>>(new Map());
const running = signal<string | undefined>(undefined);
const ranMs = signal(0);
const problem = signal("");
/** The single lab to run; no other lab follows it. */
const onlyId = signal<string | undefined>(undefined);
/** True once the view was opened; nothing runs before that. */
const isOpen = signal(false);

/** All labs; empty until the worker responds. */
export const entries: ReadonlySignal<readonly LabEntry[]> = list;
export const runningId: ReadonlySignal<string | undefined> = running;
/** The run time as text, updated every second; omitted in the first second. */
export const runningText: ReadonlySignal<string> = computed(() =>
  ranMs.value < 1000
    ? "running…"
    : `running, ${formatDuration(Math.floor(ranMs.value / 1000) * 1000)}`,
);
/** The error message, or empty. */
export const labProblem: ReadonlySignal<string> = problem;

/** The shown labs, in the order of the list. */
export const shown: ReadonlySignal<readonly LabEntry[]> = computed(() =>
  wanted.value.length === 0 ? list.value : list.value.filter(({ id }) => wanted.value.includes(id)),
);

/** An error message about unknown lab ids in a link, or empty. */
export const unknownLabText: ReadonlySignal<string> = computed(() => {
  const ids = list.value.map(({ id }) => id);
  const unknown = wanted.value.find((id) => ids.length > 0 && !ids.includes(id));
  if (unknown === undefined) return "";
  const near = nearestName(unknown, ids);
  const hint = near === undefined ? "" : ` Did you mean ${quote(near)}?`;
  return `Unknown lab ${quote(unknown)}.${hint}`;
});

const keyOf = (id: string, labSeed: Seed) => JSON.stringify([id, labSeed]);

/** The run with the current seed; undefined until it has finished. */
export function runOf(id: string): LabRun | undefined {
  return runs.value.get(keyOf(id, seed.value));
}

/** The runs of the shown labs that have finished. */
export const doneRuns: ReadonlySignal<readonly LabRun[]> = computed(() =>
  shown.value.flatMap(({ id }) => runOf(id) ?? []),
);

/** A lab takes up to a minute, so labs that nobody looks at do not run by themselves. */
function isLookedAt(id: string): boolean {
  return isAllWanted.value || wanted.value.length > 0 || openIds.value.has(id);
}

const next = computed(
  () => shown.value.find(({ id }) => isLookedAt(id) && runOf(id) === undefined)?.id,
);

/** The lab to run now: the single chosen lab, or the first shown lab without a result. */
const due = computed(() => {
  if (!isOpen.value) return undefined;
  const id = onlyId.value;
  if (id !== undefined) return runOf(id) === undefined ? id : undefined;
  return isStopped.value ? undefined : next.value;
});

/** True while a shown lab still has to run and will. */
export const isBusy: ReadonlySignal<boolean> = computed(
  () => problem.value === "" && (list.value.length === 0 || due.value !== undefined),
);

export function startLabs(): void {
  isOpen.value = true;
  if (list.value.length > 0) return;
  requestLabs("labs", {}).then(
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
    onlyId.value = undefined;
    isStopped.value = true;
  });
}

export function resume(): void {
  batch(() => {
    problem.value = "";
    onlyId.value = undefined;
    isStopped.value = false;
  });
}

export function runAll(): void {
  isAllWanted.value = true;
  resume();
}

export function setOpen(id: string, isPanelOpen: boolean): void {
  const ids = new Set(openIds.peek());
  if (isPanelOpen) ids.add(id);
  else ids.delete(id);
  openIds.value = ids;
}

/** Runs only this lab. Ends the running one. */
export function runOnly(id: string): void {
  batch(() => {
    problem.value = "";
    isStopped.value = true;
    onlyId.value = id;
  });
}

/** Ends a running lab when it is no longer due: after a new seed, another choice, or Stop. */
effect(() => {
  const id = due.value;
  const labSeed = seed.value;
  if (id === undefined) return;
  void runOne(id, labSeed);
  return () => {
    if (running.peek() === undefined) return;
    running.value = undefined;
    terminateLabWorker();
  };
});

async function runOne(id: string, labSeed: Seed): Promise<void> {
  running.value = id;
  const startedMs = systemClock.monotonicMs();
  const elapsedMs = () => systemClock.monotonicMs() - startedMs;
  cancelTick();
  tick(elapsedMs);
  try {
    const report = await requestLabs("lab", { id, options: { seed: labSeed } });
    running.value = undefined;
    const tookMs = elapsedMs();
    runs.value = new Map(runs.value).set(keyOf(id, labSeed), { report, tookMs });
  } catch (error) {
    running.value = undefined;
    problem.value = (error as Error).message;
    stop();
  }
}

let cancelTick = () => {};

/** Updates the run time every second while a lab runs. */
function tick(elapsedMs: () => number): void {
  ranMs.value = elapsedMs();
  cancelTick = systemClock.alarm(1000, () => {
    if (running.peek() !== undefined) tick(elapsedMs);
  });
}

// Lab worker: a separate worker for the labs. A lab takes seconds and cannot be interrupted, so
// Stop terminates its worker, which must not run other requests.

interface Pending {
  readonly id: number;
  resolve(output: unknown): void;
  reject(error: Error): void;
}

let worker: Worker | undefined;
let pending: Pending | undefined;
let lastId = 0;

/** Runs one request at a time: the caller waits for the response or terminates the worker. */
function requestLabs<K extends RequestKind>(kind: K, input: Input<K>): Promise<Output<K>> {
  return new Promise((resolve, reject) => {
    lastId++;
    pending = { id: lastId, resolve: resolve as Pending["resolve"], reject };
    worker ??= start();
    worker.postMessage({ id: lastId, kind, input } satisfies WorkerRequest);
  });
}

/** The pending request never settles; the next request starts a new worker. */
function terminateLabWorker(): void {
  worker?.terminate();
  worker = undefined;
  pending = undefined;
}

function start(): Worker {
  const started = new Worker(new URL("../../worker/worker.ts", import.meta.url), {
    type: "module",
  });
  started.addEventListener("message", ({ data }: MessageEvent<WorkerResponse>) => {
    if (worker === started) handleResponse(data);
  });
  started.addEventListener("error", (event) => {
    const request = pending;
    if (worker === started) terminateLabWorker();
    request?.reject(new Error(event.message || "the labs could not be loaded"));
  });
  return started;
}

/** Ignores the progress within a lab: the page counts finished labs. */
function handleResponse({ id, progress, output, problem }: WorkerResponse): void {
  const request = pending;
  if (request?.id !== id || progress !== undefined) return;
  pending = undefined;
  if (problem === undefined) request.resolve(output);
  else request.reject(new Error(problem));
}
