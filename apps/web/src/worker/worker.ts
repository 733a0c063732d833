/**
 * Worker: runs the simulator off the main thread, one request at a time. Typed arrays are transferred,
 * not copied. Modules that only some views need load on first use.
 */
import { messageOf, type PolicyDocument } from "@redrive/core";
import { coverage, herd, schedule } from "@redrive/simulator";
import type { Handlers, OnProgress, WorkerRequest, WorkerResponse } from "./query.ts";

const handlers: Handlers = {
  herd: ({ policy, options }) => herd(policy, options),
  coverage: ({ policy, outageMs, seed, samples, retryAfterMs = 0 }) =>
    retryAfterMs === 0
      ? coverage(policy, outageMs, { seed, samples })
      : hintedCoverage(policy, outageMs, seed, samples, retryAfterMs),
  strategies: async (input) => {
    const { measureStrategies } = await import("./strategy-requests.ts");
    return measureStrategies(input);
  },
  simulate: async ({ scenario, seed }, onProgress) => {
    const { simulate } = await import("./scenario-requests.ts");
    return simulate(scenario, { seed, onProgress });
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

/** The share of calls that start an attempt after the outage. Each call has its own random stream. */
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
    const onProgress: OnProgress = (progress) => respond({ id, progress }, []);
    const output = await (handlers[kind] as (input: unknown, onProgress: OnProgress) => unknown)(
      input,
      onProgress,
    );
    respond({ id, output }, buffersIn(output));
  } catch (error) {
    respond({ id, problem: messageOf(error) }, []);
  }
}

function respond(message: WorkerResponse, transfer: Transferable[]): void {
  postMessage(message, { transfer });
}

function buffersIn(value: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (typeof value !== "object" || value === null) return [];
  return [...new Set(Object.values(value).flatMap(buffersIn))];
}
