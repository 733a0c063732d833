/**
 * Client: asks the worker, and keeps only the newest question of each lane waiting. A slider asks a
 * hundred times; what is answered is what the worker can keep up with, and the last one always.
 */
import type { Ask, Input, Kind, Output, Reply } from "./requests.ts";

interface Waiting extends Omit<Ask, "id"> {
  resolve(output: unknown): void;
  reject(error: Error): void;
}

/** The next question of each lane, in the order in which lanes came to wait. */
const waiting = new Map<string, Waiting>();
let inFlight: (Waiting & { readonly id: number }) | undefined;
let lastId = 0;
let worker: Worker | undefined;

/**
 * Resolves with the answer, or with undefined if a newer question of the same lane took its place
 * before it was sent. Answers of a lane come in the order of its questions.
 */
export function ask<K extends Kind>(
  lane: string,
  kind: K,
  input: Input<K>,
): Promise<Output<K> | undefined> {
  return new Promise((resolve, reject) => {
    waiting.get(lane)?.resolve(undefined);
    waiting.set(lane, { kind, input, resolve: resolve as Waiting["resolve"], reject });
    sendNext();
  });
}

function sendNext(): void {
  const next = waiting.entries().next();
  if (inFlight !== undefined || next.done) return;
  const [lane, question] = next.value;
  waiting.delete(lane);
  lastId++;
  inFlight = { ...question, id: lastId };
  theWorker().postMessage({ id: lastId, kind: question.kind, input: question.input } satisfies Ask);
}

function theWorker(): Worker {
  worker ??= startWorker();
  return worker;
}

function startWorker(): Worker {
  const started = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  started.addEventListener("message", ({ data }: MessageEvent<Reply>) => settle(data));
  started.addEventListener("error", (event) => {
    worker = undefined;
    started.terminate();
    settle({ id: lastId, problem: event.message || "the simulator could not be loaded" });
  });
  return started;
}

function settle({ id, output, problem }: Reply): void {
  const asked = inFlight;
  if (asked?.id !== id) return;
  inFlight = undefined;
  if (problem === undefined) asked.resolve(output);
  else asked.reject(new Error(problem));
  sendNext();
}
