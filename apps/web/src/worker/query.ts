/**
 * Query: the worker's result for an input that follows the store, as signals for a view. It sends
 * requests only while something reads its signals. A result keeps its input: the shown result can
 * belong to an older input, and `isBusy` then says so.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { type PolicyDocument, systemClock } from "@redrive/core";
import type {
  Answers,
  Herd,
  HerdOptions,
  LabOptions,
  LabReport,
  LintContext,
  LintSubject,
  Report,
  ScenarioDocument,
} from "@redrive/simulator";
import type { AdviceResult } from "./advice-requests.ts";
import type { LabEntry } from "./lab-requests.ts";
import type { FixableFinding } from "./lint-requests.ts";
import type { StrategyInput, StrategyMeasures } from "./strategy-requests.ts";

/** An input and its result: a value, or the reason why there is none. */
interface QueryResult<In, Out> {
  readonly input: In;
  readonly value?: Out;
  readonly problem?: string;
}

export interface Query<In, Out> {
  /** The newest result; the previous one stays until then. */
  readonly latest: ReadonlySignal<QueryResult<In, Out> | undefined>;
  readonly value: ReadonlySignal<Out | undefined>;
  /** Why there is no result, or empty. */
  readonly problem: ReadonlySignal<string>;
  /** True while the shown result does not belong to the current input. */
  readonly isBusy: ReadonlySignal<boolean>;
}

/** Sends a request whenever the signals that `readInput` reads change. */
export function createWorkerQuery<K extends RequestKind>(
  lane: string,
  kind: K,
  readInput: () => Input<K>,
): Query<Input<K>, Output<K>> {
  return createQuery(readInput, (input) => sendRequest(lane, kind, input));
}

/** The same for several requests; `compute` may stop once its input is no longer current. */
export function createQuery<In, Out>(
  readInput: () => In,
  compute: (input: In, isCurrent: () => boolean) => Promise<Out | undefined>,
): Query<In, Out> {
  const currentInput = computed(readInput);
  let requested: In | undefined;
  const request = () => {
    const input = currentInput.value;
    if (input === requested) return;
    requested = input;
    const isCurrent = () => requested === input;
    compute(input, isCurrent).then(
      (value) => {
        if (value !== undefined) latest.value = { input, value };
      },
      (error: Error) => {
        if (isCurrent()) latest.value = { input, problem: error.message };
      },
    );
  };
  let stop = () => {};
  const latest = signal<QueryResult<In, Out> | undefined>(undefined, {
    watched: () => {
      stop = effect(request);
    },
    unwatched: () => stop(),
  });
  return {
    latest,
    value: computed(() => latest.value?.value),
    problem: computed(() => latest.value?.problem ?? ""),
    isBusy: computed(() => latest.value?.input !== currentInput.value),
  };
}

/** Resolves once nothing is pending and the page shows the result. */
export async function whenIdle(isBusy: ReadonlySignal<boolean>): Promise<void> {
  do {
    let stop = () => {};
    await new Promise<void>((resolve) => {
      stop = effect(() => {
        if (!isBusy.value) resolve();
      });
    });
    stop();
    // A result that arrived now is drawn at the end of the turn.
    await new Promise<void>((resolve) => systemClock.endOfTurn(resolve));
  } while (isBusy.peek());
}

/** Resolves with the result for the current input. Rejects with the reason if there is none. */
export async function currentResult<In, Out>(query: Query<In, Out>): Promise<Out> {
  await whenIdle(query.isBusy);
  const value = query.value.peek();
  if (value === undefined) throw new Error(query.problem.peek());
  return value;
}

// Client: sends requests to the worker. Only the newest request of each lane waits: a slider sends
// a hundred, and the worker handles as many as it can and always the last. A long request that is
// superseded or canceled ends together with its worker.

interface PendingRequest extends Omit<WorkerRequest, "id"> {
  readonly onProgress: OnProgress | undefined;
  resolve(output: unknown): void;
  reject(error: Error): void;
}

/** The waiting request of each lane, in order of arrival. */
const waiting = new Map<string, PendingRequest>();
let inFlight: (PendingRequest & { readonly id: number; lane: string; sentMs: number }) | undefined;
let lastId = 0;
let worker: Worker | undefined;

/** A worker that has run a stale request for this long is terminated. Starting a new one is fast. */
const MAX_STALE_MS = 1000;

/**
 * Resolves with the result, or with undefined if a newer request of the same lane replaced it first.
 * Results of a lane arrive in the order of its requests.
 */
export function sendRequest<K extends RequestKind>(
  lane: string,
  kind: K,
  input: Input<K>,
  onProgress?: OnProgress,
): Promise<Output<K> | undefined> {
  return new Promise((resolve, reject) => {
    waiting.get(lane)?.resolve(undefined);
    waiting.set(lane, {
      kind,
      input,
      onProgress,
      resolve: resolve as PendingRequest["resolve"],
      reject,
    });
    endStaleRequest(lane);
    sendNext();
  });
}

/** Cancels the requests of a lane; they resolve with undefined. */
export function cancelRequests(lane: string): void {
  waiting.get(lane)?.resolve(undefined);
  waiting.delete(lane);
  endStaleRequest(lane);
}

let cancelEnd = () => {};

/** Terminates the worker if it still runs a stale request of the lane after `MAX_STALE_MS`. */
function endStaleRequest(lane: string): void {
  const stale = inFlight;
  if (stale?.lane !== lane) return;
  cancelEnd();
  const leftMs = stale.sentMs + MAX_STALE_MS - systemClock.monotonicMs();
  cancelEnd = systemClock.alarm(leftMs, () => {
    if (inFlight !== stale) return;
    worker?.terminate();
    worker = undefined;
    inFlight = undefined;
    stale.resolve(undefined);
    sendNext();
  });
}

function sendNext(): void {
  const next = waiting.entries().next();
  if (inFlight !== undefined || next.done) return;
  const [lane, request] = next.value;
  waiting.delete(lane);
  lastId++;
  inFlight = { ...request, id: lastId, lane, sentMs: systemClock.monotonicMs() };
  getWorker().postMessage({
    id: lastId,
    kind: request.kind,
    input: request.input,
  } satisfies WorkerRequest);
}

function getWorker(): Worker {
  worker ??= startWorker();
  return worker;
}

function startWorker(): Worker {
  const started = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  started.addEventListener("message", ({ data }: MessageEvent<WorkerResponse>) =>
    handleResponse(data),
  );
  started.addEventListener("error", (event) => {
    worker = undefined;
    started.terminate();
    handleResponse({ id: lastId, problem: event.message || "the simulator could not be loaded" });
  });
  return started;
}

function handleResponse({ id, progress, output, problem }: WorkerResponse): void {
  const request = inFlight;
  if (request?.id !== id) return;
  if (progress !== undefined) {
    request.onProgress?.(progress);
    return;
  }
  inFlight = undefined;
  if (problem === undefined) request.resolve(output);
  else request.reject(new Error(problem));
  sendNext();
}

// Requests: the kinds of worker requests. A new kind needs an entry here and a handler in the
// worker.

interface Requests {
  readonly strategies: {
    readonly input: StrategyInput;
    readonly output: readonly StrategyMeasures[];
  };
  readonly herd: {
    readonly input: { readonly policy: PolicyDocument; readonly options: HerdOptions };
    readonly output: Herd;
  };
  readonly coverage: {
    readonly input: {
      readonly policy: PolicyDocument;
      readonly outageMs: number;
      readonly seed: number | string;
      readonly samples: number;
      /** The Retry-After hint of every response. Default: 0, no hint. */
      readonly retryAfterMs?: number;
    };
    readonly output: number;
  };
  readonly simulate: {
    readonly input: { readonly scenario: ScenarioDocument; readonly seed: number | string };
    readonly output: Report;
  };
  readonly lab: {
    readonly input: { readonly id: string; readonly options: LabOptions };
    readonly output: LabReport;
  };
  readonly lint: {
    readonly input: { readonly subject: LintSubject; readonly context: LintContext };
    readonly output: readonly FixableFinding[];
  };
  readonly labs: {
    readonly input: Readonly<Record<string, never>>;
    readonly output: readonly LabEntry[];
  };
  readonly advise: {
    readonly input: { readonly answers: Answers };
    readonly output: AdviceResult;
  };
}

export type RequestKind = keyof Requests;
export type Input<K extends RequestKind> = Requests[K]["input"];
export type Output<K extends RequestKind> = Requests[K]["output"];

/** Reports the share of the work that is done, 0 to 1. */
export type OnProgress = (share: number) => void;

export type Handlers = {
  readonly [K in RequestKind]: (
    input: Input<K>,
    onProgress: OnProgress,
  ) => Output<K> | Promise<Output<K>>;
};

/** The message to the worker. */
export interface WorkerRequest {
  readonly id: number;
  readonly kind: RequestKind;
  readonly input: unknown;
}

/** The message from the worker: `progress` any number of times, then `output` or `problem`. */
export interface WorkerResponse {
  readonly id: number;
  readonly progress?: number;
  readonly output?: unknown;
  readonly problem?: string;
}
