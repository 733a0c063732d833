/** Curve store: the policy, the outage and the seed, and the schedule that follows from them. */
import { computed, signal } from "@preact/signals";
import { assertRange, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { COVERAGE_SAMPLES, type Schedule, schedule } from "@redrive/simulator";
import { loadSharedPolicy } from "../../panels/policy/load-policy.ts";
import { createWorkerQuery } from "../../worker/query.ts";
import { FIRST_SEED, type Seed } from "../seed.ts";
import type { ApplyState, RunOf } from "../view.ts";
import { labeledProblem } from "./field-names.ts";
import { type CurveFields, curveFieldsOf, type StrategyId, withStrategy } from "./strategy.ts";

const INITIAL_POLICY: PolicyDocument = {
  maxAttempts: 8,
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  jitterType: "FULL",
};
const INITIAL_OUTAGE_MS = 8000;
/** On a linear scale, the first waits of an exponential curve would be invisible. */
const INITIAL_LOG = true;
const MAX_MS = 365 * 86_400_000;

/** Fewer samples with hints, because every wait then runs `decide` of core, which is slower. */
const HINTED_SAMPLES = 4000;

export const policy = signal<PolicyDocument>(INITIAL_POLICY);
/** The name of the preset or catalog entry, or empty for a custom policy. */
export const policyName = signal("");
export const seed = signal<Seed>(FIRST_SEED);
export const outageMs = signal(INITIAL_OUTAGE_MS);
export const retryAfterMs = signal(0);
/** True if the chart has a logarithmic axis. */
export const isLog = signal(INITIAL_LOG);

export const resolved = computed(() => resolvePolicy(policy.value));
export const drawn = computed<Schedule>(() =>
  schedule(policy.value, { seed: seed.value, retryAfterMs: retryAfterMs.value }),
);

/** The number of simulated calls for the coverage. */
export const samples = computed(() => (retryAfterMs.value > 0 ? HINTED_SAMPLES : COVERAGE_SAMPLES));

export const coverageQuery = createWorkerQuery("coverage", "coverage", () => ({
  policy: policy.value,
  outageMs: outageMs.value,
  seed: seed.value,
  samples: samples.value,
  retryAfterMs: retryAfterMs.value,
}));

/** Sets a custom policy, without the id and description of the preset that it came from. */
export function changePolicy(next: PolicyDocument): string {
  const { policyId: _, description: __, ...changed } = next;
  return setPolicy(changed, "");
}

/** The fields of the last curve, for the way back from a list of waits. */
let lastCurve: CurveFields = {};

/** Returns an empty string, or an error message if the policy would be invalid. */
export function changeStrategy(id: StrategyId): string {
  const before = policy.value;
  if (before.delaysMs === undefined) {
    lastCurve = curveFieldsOf(before);
    return changePolicy(withStrategy(before, id));
  }
  const after = withStrategy(before, id);
  return changePolicy(id === "list" ? after : { ...after, ...lastCurve });
}

/** Returns an empty string, or an error message if the policy is invalid and was not set. */
export function setPolicy(next: PolicyDocument, name: string): string {
  try {
    resolvePolicy(next);
  } catch (error) {
    return labeledProblem((error as Error).message);
  }
  policy.value = next;
  policyName.value = name;
  return "";
}

export function curveRun(): RunOf<"curve"> {
  return {
    view: "curve",
    seed: seed.value,
    policy: policyName.value || policy.value,
    outageMs: outageMs.value,
    ...(retryAfterMs.value > 0 && { retryAfterMs: retryAfterMs.value }),
    ...(isLog.value !== INITIAL_LOG && { log: isLog.value }),
  };
}

export async function openCurve(run: RunOf<"curve">): Promise<ApplyState> {
  const { outageMs: opened = INITIAL_OUTAGE_MS, retryAfterMs: hintMs = 0 } = run;
  assertRange("outageMs", opened, 0, MAX_MS);
  const document = await loadSharedPolicy(run.policy);
  // Throws for values that the simulator rejects, before anything is shown.
  schedule(document, { seed: run.seed, retryAfterMs: hintMs });
  return () => {
    lastCurve = {};
    setPolicy(document, typeof run.policy === "string" ? run.policy : "");
    seed.value = run.seed;
    outageMs.value = opened;
    retryAfterMs.value = hintMs;
    isLog.value = run.log ?? INITIAL_LOG;
  };
}

export function resetCurve(): void {
  setPolicy(INITIAL_POLICY, "");
  lastCurve = {};
  seed.value = FIRST_SEED;
  outageMs.value = INITIAL_OUTAGE_MS;
  retryAfterMs.value = 0;
  isLog.value = INITIAL_LOG;
}
