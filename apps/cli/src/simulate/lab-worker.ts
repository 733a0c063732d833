/** Lab worker: runs labs outside the main thread, which draws the progress meanwhile. */
import { parentPort } from "node:worker_threads";
import { runLab } from "@redrive/simulator";
import type { LabTask } from "./lab.ts";

parentPort?.on("message", ({ id, seed, effort }: LabTask) => {
  parentPort?.postMessage(runLab(id, { seed, effort }));
});
