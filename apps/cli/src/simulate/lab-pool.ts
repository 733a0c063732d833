/**
 * Lab pool: labs run on as many threads as the machine has to spare. Their seeds are their own, so
 * the order in which they end changes no number.
 */
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { LabReport } from "@redrive/simulator";
import type { Seed } from "../print/presentation.ts";

export interface LabTask {
  readonly id: string;
  readonly seed: Seed;
  /** Share of the full number of runs, above 0 to 1. */
  readonly effort: number;
}

/** What is told as labs begin and end. */
export interface LabWatcher {
  started(task: LabTask): void;
  finished(report: LabReport): void;
}

export type RunLabs = (
  tasks: readonly LabTask[],
  watcher: LabWatcher,
) => Promise<readonly LabReport[]>;

const MAX_THREADS = 4;

/** Reports in the order of the tasks. Fails with the first lab that fails. */
export const runLabsOnThreads: RunLabs = async (tasks, watcher) => {
  const reports: LabReport[] = [];
  const waiting = tasks.map((task, place) => ({ task, place }));
  const threads = Math.min(MAX_THREADS, availableParallelism(), tasks.length);
  const work = async () => {
    const worker = new Worker(new URL("./lab-worker.js", import.meta.url));
    try {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        watcher.started(next.task);
        worker.postMessage(next.task);
        const [report] = (await once(worker, "message")) as [LabReport];
        reports[next.place] = report;
        watcher.finished(report);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: threads }, work));
  return reports;
};
