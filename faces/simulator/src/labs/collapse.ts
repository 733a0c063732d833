/**
 * Collapse lab: Brooker's concurrency model of 2023. Latency grows with the calls in progress, calls
 * time out after 3 s and are tried three times; a spike, or a ramp, tips it over.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { type Figures, figuresOf } from "../measure/report.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument, OpenClients, PhaseDocument } from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls/calls.ts";
import { between, type Lab, type LabRow, runs } from "./lab.ts";
import { bucketGuard } from "./published-guards.ts";

const AT_ONCE: PolicyDocument = {
  maxAttempts: 3,
  initialDelayMs: 0,
  jitterType: "NONE",
  attemptTimeoutMs: 3000,
  totalBudgetMs: 3_600_000,
};
/** U(0, 20 s), then U(0, 40 s). */
const BACKOFF: PolicyDocument = {
  ...AT_ONCE,
  jitterType: "FULL",
  initialDelayMs: 20_000,
  maxDelayMs: 40_000,
};

function scenario(
  clients: OpenClients,
  phase: PhaseDocument,
  horizonMs: number,
  destination: DestinationDocument,
): CallsDocument {
  return {
    clients,
    guards: "SHARED",
    horizonMs,
    tiers: [
      {
        destination,
        server: { latency: 1000, perCallMs: 10, hop: { kind: "EXPONENTIAL", meanMs: 100 } },
      },
    ],
    timeline: [phase],
  };
}

const SPIKE: PhaseDocument = { kind: "SPIKE", factor: 2, atMs: 20_000, forMs: 5000 };
/**
 * His ramp goes from 40/s at 0 to 80/s at 25 s and down to nothing at 75 s. Ours starts 25 s earlier,
 * at nothing: every instant of his is 25 s later here.
 */
const RAMP: PhaseDocument = { kind: "SPIKE", factor: 1000, ramp: true, atMs: 0, forMs: 100_000 };

type Load = "spike" | "ramp";

function collapses(load: Load, policy: PolicyDocument, hasBudget: boolean, seed: string): boolean {
  const document =
    load === "spike"
      ? scenario({ kind: "OPEN", ratePerSecond: 40 }, SPIKE, 80_000, { policy })
      : scenario({ kind: "OPEN", ratePerSecond: 0.08 }, RAMP, 105_000, { policy });
  const own = hasBudget
    ? { customGuard: () => bucketGuard({ ratio: 0.1, size: 20, on: "success" }) }
    : {};
  const figures = figuresOf(runCalls(resolveCalls(document), seed, own));
  return load === "spike"
    ? isCollapsed(figures, 60_000, 79_000)
    : isCollapsed(figures, 85_000, 99_000);
}

/** Less than half of what is offered succeeds. */
function isCollapsed({ series }: Figures, fromMs: number, toMs: number): boolean {
  let offered = 0;
  let served = 0;
  for (let bin = Math.floor(fromMs / series.binMs); bin * series.binMs < toMs; bin++) {
    offered += series.offered[bin] ?? 0;
    served += series.succeeded[bin] ?? 0;
  }
  return served < offered / 2;
}

function share(
  load: Load,
  policy: PolicyDocument,
  hasBudget: boolean,
  seed: number | string,
  count: number,
) {
  let collapsed = 0;
  for (let run = 0; run < count; run++)
    if (collapses(load, policy, hasBudget, `${seed}/${run}`)) collapsed++;
  return collapsed / count;
}

function run(seed: number | string, effort: number): readonly LabRow[] {
  const count = runs(200, effort, 40);
  const row = (what: string, published: number, ours: number, from: number, to: number) =>
    between(`${what}: share of runs collapsed`, published, ours, from, to);
  return [
    row("spike, no backoff", 0.72, share("spike", AT_ONCE, false, seed, count), 0.55, 0.9),
    row("spike, backoff and jitter", 0, share("spike", BACKOFF, false, seed, count), 0, 0),
    row("spike, 10 % budget", 0, share("spike", AT_ONCE, true, seed, count), 0, 0),
    row("ramp, no backoff", 1, share("ramp", AT_ONCE, false, seed, count), 1, 1),
    row("ramp, backoff and jitter", 1, share("ramp", BACKOFF, false, seed, count), 1, 1),
    row("ramp, 10 % budget", 0, share("ramp", AT_ONCE, true, seed, count), 0, 0),
  ];
}

export const collapseLab: Lab = {
  id: "collapse",
  title: "Collapse by concurrency: a spike and a ramp",
  source: "Brooker, simple_collapse_sim (simulator_example), 2023",
  lesson: "Backoff with jitter survives a short spike, not a long ramp; a budget survives both.",
  run,
};
