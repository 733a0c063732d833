/**
 * Worker: runs the simulator off the main thread, one request after another. Typed arrays are handed
 * over, not copied. What few views need is loaded when it is first asked for.
 */
import type { PolicyDocument } from "@redrive/core";
import { coverage, herd, schedule } from "@redrive/simulator";
import type { Handlers, OnProgress, WorkerRequest, WorkerResponse } from "./requests.ts";

const handlers: Handlers = {
  herd: ({ policy, options }) => herd(policy, options),
  coverage: ({ policy, outageMs, seed, samples, retryAfterMs = 0 }) =>
    retryAfterMs === 0
      ? coverage(policy, outageMs, { seed, samples })
      : hintedCoverage(policy, outageMs, seed, samples, retryAfterMs),
  strategies: async (question) => {
    const { measureStrategies } = await import("./strategy-requests.ts");
    return measureStrategies(question);
  },
  simulate: async ({ scenario, seed }, tell) => {
    const { simulate } = await import("./scenario-requests.ts");
    return simulate(scenario, { seed, onProgress: tell });
  },
  lab: async ({ id, options }) => {
    const { runLab } = await import("./lab-requests.ts");
    return runLab(id, options);
  },
  lint: async ({ subject, context }) => {
    const { lintWithFixes: lintAndMend } = await import("./lint-requests.ts");
    return lintAndMend(subject, context);
  },
  advise: async ({ answers }) => {
    const { adviseInSteps } = await import("./advice-requests.ts");
    return adviseInSteps(answers);
  },
  labs: async () => (await import("./lab-requests.ts")).listLabs(),
};

/** The share of calls, each with a stream of its own, that start an attempt after the outage. */
function hintedCoverage(
  policy: PolicyDocument,
  outageMs: number,
  seed: number | string,
  samples: number,
  retryAfterMs: number,
): number {
  let covered = 0;
  for (let call = 0; call < samples; call++) {
    const { sumMs } = schedule(policy, { seed, callId: String(call), retryAfterMs });
    if (sumMs >= outageMs) covered++;
  }
  return covered / samples;
}

addEventListener("message", ({ data }: MessageEvent<WorkerRequest>) => void handleRequest(data));

async function handleRequest({ id, kind, input }: WorkerRequest): Promise<void> {
  try {
    const tell: OnProgress = (progress) => reply({ id, progress }, []);
    const output = await (handlers[kind] as (input: unknown, tell: OnProgress) => unknown)(
      input,
      tell,
    );
    reply({ id, output }, buffersIn(output));
  } catch (error) {
    reply({ id, problem: error instanceof Error ? error.message : String(error) }, []);
  }
}

function reply(message: WorkerResponse, transfer: Transferable[]): void {
  postMessage(message, { transfer });
}

function buffersIn(value: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (typeof value !== "object" || value === null) return [];
  return [...new Set(Object.values(value).flatMap(buffersIn))];
}
