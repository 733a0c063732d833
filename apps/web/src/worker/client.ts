/**
 * Client: sends requests to the worker. Only the newest request of each lane waits: a slider sends a
 * hundred, and the worker handles as many as it can and always the last. A long request that is
 * superseded or canceled ends together with its worker.
 */
import { systemClock } from "@redrive/core";
import type {
  Input,
  OnProgress,
  Output,
  RequestKind,
  WorkerRequest,
  WorkerResponse,
} from "./requests.ts";

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
