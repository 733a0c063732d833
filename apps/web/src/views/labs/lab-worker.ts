/**
 * Lab worker: a worker of the view's own. Labs take seconds and cannot be interrupted from within, so
 * ending one is ending its worker, which must then be nobody else's.
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

/** One question at a time: the caller waits for its answer, or stops. */
export function askLabs<K extends RequestKind>(kind: K, input: Input<K>): Promise<Output<K>> {
  return new Promise((resolve, reject) => {
    lastId++;
    pending = { id: lastId, resolve: resolve as Pending["resolve"], reject };
    worker ??= start();
    worker.postMessage({ id: lastId, kind, input } satisfies WorkerRequest);
  });
}

/** What was asked is never answered; the next question starts afresh. */
export function stopLabs(): void {
  worker?.terminate();
  worker = undefined;
  pending = undefined;
}

function start(): Worker {
  const started = new Worker(new URL("../../worker/worker.ts", import.meta.url), {
    type: "module",
  });
  started.addEventListener("message", ({ data }: MessageEvent<WorkerResponse>) => {
    if (worker === started) settle(data);
  });
  started.addEventListener("error", (event) => {
    const asked = pending;
    if (worker === started) stopLabs();
    asked?.reject(new Error(event.message || "the labs could not be loaded"));
  });
  return started;
}

/** How far a lab is within itself is not told: labs are counted whole. */
function settle({ id, progress, output, problem }: WorkerResponse): void {
  const asked = pending;
  if (asked?.id !== id || progress !== undefined) return;
  pending = undefined;
  if (problem === undefined) asked.resolve(output);
  else asked.reject(new Error(problem));
}
