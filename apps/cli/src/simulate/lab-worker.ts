/** Lab worker: runs labs off the main thread, so that progress can be drawn while one is busy. */
import { parentPort } from "node:worker_threads";
import { runLab } from "@redrive/simulator";
import type { LabTask } from "./lab-pool.ts";

parentPort?.on("message", ({ id, seed, effort }: LabTask) => {
  parentPort?.postMessage(runLab(id, { seed, effort }));
});
