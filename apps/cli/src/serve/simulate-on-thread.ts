/**
 * Simulate on thread: the simulator as a capability of the service. Each run has a thread of its
 * own with a limit of memory, and the thread is ended when the caller is gone or the time is over.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { DocumentError, RedriveError } from "@redrive/core";
import type { SimulatedRun, Simulator } from "@redrive/service/http";
import type { SimulationOrder, SimulationReply } from "./simulation-worker.ts";

/** Of one thread. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 64 };

export const threadSimulator: Simulator = {
  async run(scenario, seed, signal) {
    signal.throwIfAborted();
    const worker = new Worker(new URL("./simulation-worker.js", import.meta.url), {
      resourceLimits: RESOURCE_LIMITS,
      // The flags of the process, such as an inspector or the conditions of a test, are not for it.
      execArgv: [],
    });
    try {
      worker.postMessage({ scenario, seed } satisfies SimulationOrder);
      const [reply] = (await once(worker, "message", { signal })) as [SimulationReply];
      return runOf(reply);
    } catch (error) {
      throw signal.aborted ? signal.reason : threadError(error as Error);
    } finally {
      await worker.terminate();
    }
  },
};

function runOf(reply: SimulationReply): SimulatedRun {
  switch (reply.kind) {
    case "done":
      return { reportJson: reply.reportJson, link: reply.link };
    case "invalid":
      throw new DocumentError("INVALID_ARGUMENT", [...reply.problems]);
    case "failed":
      if (!reply.isRefused) throw new Error(reply.message);
      throw new RedriveError("SIMULATION_TOO_LARGE", reply.message);
  }
}

function threadError(error: Error): Error {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "ERR_WORKER_OUT_OF_MEMORY") return error;
  const text = `the simulation needs more than ${RESOURCE_LIMITS.maxOldGenerationSizeMb} MiB: use a shorter horizon or fewer clients`;
  return new RedriveError("SIMULATION_TOO_LARGE", text, { cause: error });
}
