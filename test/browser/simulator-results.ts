/** Simulator results: one result of each kind that the page requests, as text to compare. */
import {
  advise,
  coverage,
  herd,
  lint,
  runLab,
  scenarios,
  schedule,
  simulate,
  traceHash,
} from "@redrive/simulator";

/** The trace of every shipped scenario. */
export function hashes(): Record<string, string> {
  const all = Object.entries(scenarios).map(([name, one]) => [name, traceHash(one, 1)]);
  return Object.fromEntries(all);
}

export function results(): Record<string, string> {
  const scenario = scenarios["brownout"];
  const shares: number[] = [];
  return {
    schedule: JSON.stringify(schedule("default", { seed: 7 })),
    coverage: JSON.stringify(coverage("default", 8000)),
    herd: JSON.stringify(herd("interactive", { clients: 1000 }).peak),
    lint: JSON.stringify(lint({ jitterType: "NONE" }, { clients: 400 })),
    advise: JSON.stringify(advise({ clients: "very-many", outageMs: 60_000 })),
    lab: JSON.stringify(runLab("budgets", { seed: 1 })),
    verdict: scenario
      ? simulate(scenario, { onProgress: (share) => shares.push(share) }).verdict
      : "",
    progress: JSON.stringify(shares),
  };
}
