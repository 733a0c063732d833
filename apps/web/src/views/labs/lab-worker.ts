/**
 * Lab worker: a separate worker for the labs. A lab takes seconds and cannot be interrupted, so Stop
 * terminates its worker, which must not run other requests.
 */
import type {
  Input,
  Output,
  RequestKind,
  WorkerRequest,
  WorkerResponse,
} from "../../worker/requests.ts";

interface Pending {
  readonly id: number;
  resolve(output: unknown): void;
  reject(error: Error): void;
}

let worker: Worker | undefined;
let pending: Pending | undefined;
let lastId = 0;

/** Runs one request at a time: the caller waits for the response or terminates the worker. */
export function requestLabs<K extends RequestKind>(kind: K, input: Input<K>): Promise<Output<K>> {
  return new Promise((resolve, reject) => {
    lastId++;
    pending = { id: lastId, resolve: resolve as Pending["resolve"], reject };
    worker ??= start();
    worker.postMessage({ id: lastId, kind, input } satisfies WorkerRequest);
  });
}

/** The pending request never settles; the next request starts a new worker. */
export function terminateLabWorker(): void {
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
