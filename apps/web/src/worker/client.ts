/**
 * Client: asks the worker, and keeps only the newest question of each lane waiting. A slider asks a
 * hundred times; what is answered is what the worker can keep up with, and the last one always. An
 * answer that takes long is not waited for once a newer question of its lane has come, or nobody
 * wants it any more.
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

/** The next question of each lane, in the order in which lanes came to wait. */
const waiting = new Map<string, PendingRequest>();
let inFlight: (PendingRequest & { readonly id: number; lane: string; sentMs: number }) | undefined;
let lastId = 0;
let worker: Worker | undefined;

/** A worker is quickly started anew; one that is this long at work that nobody wants is ended. */
const MAX_STALE_MS = 1000;

/**
 * Resolves with the answer, or with undefined if a newer question of the same lane took its place
 * before it was answered. Answers of a lane come in the order of its questions.
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

/** Nobody wants to know any more what was asked in this lane. */
export function cancelRequests(lane: string): void {
  waiting.get(lane)?.resolve(undefined);
  waiting.delete(lane);
  endStaleRequest(lane);
}

let cancelEnd = () => {};

/** Ends the worker once it has long been at work on a question of the lane that is now the past. */
function endStaleRequest(lane: string): void {
  const past = inFlight;
  if (past?.lane !== lane) return;
  cancelEnd();
  const leftMs = past.sentMs + MAX_STALE_MS - systemClock.monotonicMs();
  cancelEnd = systemClock.alarm(leftMs, () => {
    if (inFlight !== past) return;
    worker?.terminate();
    worker = undefined;
    inFlight = undefined;
    past.resolve(undefined);
    sendNext();
  });
}

function sendNext(): void {
  const next = waiting.entries().next();
  if (inFlight !== undefined || next.done) return;
  const [lane, question] = next.value;
  waiting.delete(lane);
  lastId++;
  inFlight = { ...question, id: lastId, lane, sentMs: systemClock.monotonicMs() };
  theWorker().postMessage({
    id: lastId,
    kind: question.kind,
    input: question.input,
  } satisfies WorkerRequest);
}

function theWorker(): Worker {
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
  const asked = inFlight;
  if (asked?.id !== id) return;
  if (progress !== undefined) {
    asked.onProgress?.(progress);
    return;
  }
  inFlight = undefined;
  if (problem === undefined) asked.resolve(output);
  else asked.reject(new Error(problem));
  sendNext();
}
