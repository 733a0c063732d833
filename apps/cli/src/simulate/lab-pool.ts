/**
 * Lab pool: runs labs on several threads. Each lab has its own random stream, so the results do not
 * depend on the order in which labs finish.
 */
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { LabReport } from "@redrive/simulator";
import type { Seed } from "../print/presentation.ts";

export interface LabTask {
  readonly id: string;
  readonly seed: Seed;
  /** Share of the full number of runs. Greater than 0, at most 1. */
  readonly effort: number;
}

/** Called when a lab starts or finishes. */
export interface LabWatcher {
  started(task: LabTask): void;
  finished(report: LabReport): void;
}

export type RunLabs = (
  tasks: readonly LabTask[],
  watcher: LabWatcher,
) => Promise<readonly LabReport[]>;

const MAX_THREADS = 4;

/** Returns the reports in the order of the tasks. Rejects if a lab fails. */
export const runLabsOnThreads: RunLabs = async (tasks, watcher) => {
  const reports: LabReport[] = [];
  const waiting = tasks.map((task, index) => ({ task, index }));
  const threads = Math.min(MAX_THREADS, availableParallelism(), tasks.length);
  const work = async () => {
    const worker = new Worker(new URL("./lab-worker.js", import.meta.url));
    try {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        watcher.started(next.task);
        worker.postMessage(next.task);
        const [report] = (await once(worker, "message")) as [LabReport];
        reports[next.index] = report;
        watcher.finished(report);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: threads }, work));
  return reports;
};
