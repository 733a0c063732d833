/**
 * Load lab: how much load retries add, against how often the server fails, and what it saves
 * (Brooker, February and August 2022). No capacity: the server fails by chance alone.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { power } from "../chance/numeric.ts";
import { type Figures, figuresOf } from "../measure/report.ts";
import { type CallsDocument, resolveCalls } from "../scenario.ts";
import type { OwnGuard } from "../world/caller.ts";
import { runCalls } from "../world/calls.ts";
import { between, type Lab, type LabRow, near, same, within } from "./lab.ts";
import { bucketGuard, lifetimeGuard } from "./own-guards.ts";

const AT_ONCE: PolicyDocument = { initialDelayMs: 0, jitterType: "NONE", totalBudgetMs: 3_600_000 };

interface LoadModel {
  readonly failureRate: number;
  readonly retries: number;
  readonly clients?: number;
  readonly ratePerSecond?: number;
  readonly spanMs?: number;
  readonly own?: () => OwnGuard;
  readonly destination?: DestinationDocument;
}

/** 100 clients of 10 calls a second for 10 s, one way Exp(10 ms), then drained. */
function loadScenario(model: LoadModel): CallsDocument {
  const { failureRate, retries, clients = 100, ratePerSecond = 1000, spanMs = 10_000 } = model;
  return {
    clients: { kind: "OPEN", count: clients, ratePerSecond, untilMs: spanMs },
    horizonMs: spanMs + 60_000,
    tiers: [
      {
        destination: { policy: { ...AT_ONCE, maxAttempts: retries + 1 }, ...model.destination },
        server: { failureRate, hop: { kind: "EXPONENTIAL", meanMs: 10 } },
      },
    ],
  };
}

function run1(model: LoadModel, seed: number | string): Figures {
  return figuresOf(runCalls(resolveCalls(loadScenario(model)), seed, { ownGuard: model.own }));
}

function closedForms(seed: number | string): readonly LabRow[] {
  return [0.01, 0.1, 0.2, 0.5, 1].flatMap((f) => {
    const { amplification, goodput } = run1({ failureRate: f, retries: 3 }, seed);
    const load = f === 1 ? 4 : (1 - power(f, 4)) / (1 - f);
    return [
      near(`3 retries, ${f * 100} % fail: load`, load, amplification, 0.02),
      within(`3 retries, ${f * 100} % fail: success`, 1 - power(f, 4), goodput, 0.02),
    ];
  });
}

/** "As coded": no cap per call, deposits on first tries. "On success": capped at 3 retries. */
function bucketRows(seed: number | string): readonly LabRow[] {
  const coded = (failureRate: number, spanMs = 10_000) =>
    run1(
      {
        failureRate,
        retries: 999,
        spanMs,
        own: () => bucketGuard({ ratio: 0.1, size: 5, on: "first" }),
      },
      seed,
    );
  const onSuccess = (failureRate: number, spanMs = 10_000) =>
    run1(
      {
        failureRate,
        retries: 3,
        spanMs,
        own: () => bucketGuard({ ratio: 0.1, size: 5, on: "success" }),
      },
      seed,
    );
  return [
    near("bucket as coded, 20 % fail: load", 1.134, coded(0.2).amplification, 0.02),
    within("bucket as coded, 20 % fail: success", 0.904, coded(0.2).goodput, 0.02),
    near("bucket as coded, all fail: load", 1.143, coded(1).amplification, 0.02),
    within("bucket as coded, all fail, 100 s: load", 1.1, coded(1, 100_000).amplification, 0.01),
    near("bucket on success, 50 % fail: load", 1.097, onSuccess(0.5).amplification, 0.02),
    within("bucket on success, 50 % fail: success", 0.55, onSuccess(0.5).goodput, 0.02),
    near(
      "bucket on success, all fail, 100 s: load",
      1.005,
      onSuccess(1, 100_000).amplification,
      0.01,
    ),
  ];
}

function breakerRows(seed: number | string): readonly LabRow[] {
  const breaker = (failureRate: number) =>
    run1({ failureRate, retries: 3, own: () => lifetimeGuard(0.1) }, seed);
  const tenth = breaker(0.1);
  return [
    within("retry breaker 10 %, 10 % fail: success", 0.926, tenth.goodput, 0.02),
    within("retry breaker 10 %, 10 % fail: load", 1.03, tenth.amplification, 0.02),
    within("retry breaker 10 %, 50 % fail: load", 1, breaker(0.5).amplification, 0.01),
  ];
}

function countRows(seed: number | string): readonly LabRow[] {
  const loads = [10, 100, 1000].map((clients) => {
    const own = () => bucketGuard({ ratio: 0.1, size: 5, on: "first" });
    return run1({ failureRate: 0.5, retries: 999, clients, ratePerSecond: 100, own }, seed)
      .amplification;
  });
  const [few = 0, some = 0, many = 0] = loads;
  return [
    near("bucket, 10 clients of 10 calls/s: load", 1.14, few, 0.03),
    near("bucket, 100 clients of 1 call/s: load", 1.46, some, 0.03),
    near("bucket, 1,000 clients of 0.1 call/s: load", 1.88, many, 0.03),
    same("load grows with the number of clients", "yes", few < some && some < many ? "yes" : "no"),
  ];
}

/** Backoff reduces load only where clients wait for it (closed loop). */
function backoffRows(seed: number | string): readonly LabRow[] {
  const backoff: PolicyDocument = {
    ...AT_ONCE,
    maxAttempts: 4,
    initialDelayMs: 100,
    maxDelayMs: 60_000,
  };
  const open = run1({ failureRate: 0.5, retries: 3, destination: { policy: backoff } }, seed);
  const serial = (failureRate: number, policy: PolicyDocument): Figures => {
    const document: CallsDocument = {
      clients: { kind: "CLOSED", count: 100, think: { kind: "EXPONENTIAL", meanMs: 100 } },
      horizonMs: 30_000,
      tiers: [
        {
          destination: { policy },
          server: { failureRate, hop: { kind: "EXPONENTIAL", meanMs: 10 } },
        },
      ],
    };
    return figuresOf(runCalls(resolveCalls(document), seed));
  };
  const healthy = serial(0, backoff).calls;
  const half = serial(0.5, backoff);
  return [
    between("open clients with backoff, 50 % fail: load", 1.85, open.amplification, 1.75, 2),
    between("serial clients with backoff, 50 % fail: load", 0.82, half.attempts / healthy, 0, 0.9),
    between("serial clients, 50 % fail: first tries", 0.44, half.calls / healthy, 0.3, 0.6),
  ];
}

export const loadLab: Lab = {
  id: "load",
  title: "Load against failure: what retries cost and save",
  source:
    "Brooker, Fixing retries with token buckets and circuit breakers (Feb 2022), What is Backoff For? (Aug 2022)",
  lesson:
    "A bucket per client bounds the load only if the client lives long: 1,000 short-lived clients reach 1.88 times. Backoff reduces the load of closed clients, never of open traffic.",
  run: (seed) => [
    ...closedForms(seed),
    ...bucketRows(seed),
    ...breakerRows(seed),
    ...countRows(seed),
    ...backoffRows(seed),
  ],
};
