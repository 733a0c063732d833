/** Curve store: the policy, the outage and the seed, and the schedule that follows from them. */
import { computed, signal } from "@preact/signals";
import { assertRange, type JitterType, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { COVERAGE_SAMPLES, type Schedule, schedule } from "@redrive/simulator";
import { loadSharedPolicy } from "../../components/policy-picker.tsx";
import { createWorkerQuery } from "../../worker/query.ts";
import { type ApplyState, FIRST_SEED, type RunOf, type Seed } from "../view.ts";

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

// Strategy: maps the strategy buttons of the curve to policy documents and back.

export type StrategyId =
  | "fixed"
  | "linear"
  | "exponential"
  | "full"
  | "equal"
  | "decorrelated"
  | "proportional"
  | "list";

export const strategyLabels: Readonly<Record<StrategyId, string>> = {
  full: "Full jitter",
  equal: "Equal jitter",
  decorrelated: "Decorrelated",
  proportional: "Proportional",
  exponential: "Exponential",
  linear: "Linear",
  fixed: "Fixed",
  list: "Custom list",
};

const JITTER_OF: Readonly<Record<string, JitterType>> = {
  full: "FULL",
  equal: "EQUAL",
  decorrelated: "DECORRELATED",
  proportional: "PROPORTIONAL",
  exponential: "NONE",
};

/** The first list when the reader switches to a custom list. */
const INITIAL_LIST = [100, 500, 2000, 8000];

/** The button for the document; undefined for a mix, such as linear with full jitter. */
export function strategyOf(document: PolicyDocument): StrategyId | undefined {
  const { delaysMs, backoff, jitterType } = resolvePolicy(document);
  if (delaysMs !== undefined) return "list";
  if (backoff === "LINEAR") return jitterType === "NONE" ? "linear" : undefined;
  if (backoff === "FIXED") return jitterType === "NONE" ? "fixed" : undefined;
  const ids = Object.keys(JITTER_OF) as StrategyId[];
  return ids.find((id) => JITTER_OF[id] === jitterType);
}

/** A readable name, for mixes too. */
export function strategyName(document: PolicyDocument): string {
  const id = strategyOf(document);
  if (id !== undefined) return strategyLabels[id];
  const { backoff, jitterType } = resolvePolicy(document);
  return `${backoff === "LINEAR" ? "Linear" : "Fixed"}, ${jitterType.toLowerCase()} jitter`;
}

/** The fields of a curve that a list of waits does not have. */
const CURVE_FIELDS = [
  "initialDelayMs",
  "multiplier",
  "maxDelayMs",
  "throttleDelayMs",
  "maxAttempts",
] as const;

type CurveFields = Pick<PolicyDocument, (typeof CURVE_FIELDS)[number]>;

/** The fields that a switch to a list removes, so that the way back restores them. */
function curveFieldsOf(document: PolicyDocument): CurveFields {
  const kept = CURVE_FIELDS.filter((name) => document[name] !== undefined);
  return Object.fromEntries(kept.map((name) => [name, document[name]])) as CurveFields;
}

/** The document with another strategy, without the fields that do not apply to it. */
export function withStrategy(document: PolicyDocument, id: StrategyId): PolicyDocument {
  const { delaysMs, backoff, jitterType, jitterRatio, ...rest } = document;
  if (id === "list") {
    const { initialDelayMs, multiplier, maxDelayMs, throttleDelayMs, maxAttempts, ...common } =
      rest;
    return { ...common, delaysMs: delaysMs ?? INITIAL_LIST, jitterType: "NONE" };
  }
  const attempts = delaysMs === undefined ? {} : { maxAttempts: delaysMs.length + 1 };
  if (id === "linear" || id === "fixed") {
    return {
      ...rest,
      ...attempts,
      backoff: id === "linear" ? "LINEAR" : "FIXED",
      jitterType: "NONE",
    };
  }
  const ratio = id === "proportional" && jitterRatio !== undefined ? { jitterRatio } : {};
  return { ...rest, ...attempts, ...ratio, jitterType: JITTER_OF[id] as JitterType };
}

const LABELS: Readonly<Record<string, string>> = {
  totalBudgetMs: "the deadline",
  initialDelayMs: "the base",
  maxDelayMs: "the max",
  maxAttempts: "the attempts",
  multiplier: "the multiplier",
  jitterRatio: "the jitter",
  delaysMs: "the list of waits",
};

/**
 * The message with the labels of the controls instead of the names of policy fields, for example
 * "The deadline must be at least the first wait and call (60000 + 1 ms), got 30000 ms".
 */
export function labeledProblem(message: string): string {
  const isDuration = /^\w+Ms\b/u.test(message);
  const named = message.replace(/\b[a-z]+[A-Za-z]*\b/gu, (name) => LABELS[name] ?? name);
  const text = isDuration ? named.replace(/(\d)(\)|$)/gu, "$1 ms$2") : named;
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
