/**
 * Document: reads and changes scenario documents for the controls. Every change is a pure function
 * from one document to the next.
 */
import {
  type DestinationDocument,
  formatDuration,
  formatNumber,
  formatPercent,
  type PolicyDocument,
  preset,
  resolvePolicy,
} from "@redrive/core";
import {
  type CallsDocument,
  type ContentionDocument,
  type DurationDocument,
  type LintContext,
  type LintTiers,
  type PhaseDocument,
  type PhaseKind,
  type QueueDocument,
  type ScenarioDocument,
  type ServerDocument,
  strategyDocument,
  type TierDocument,
} from "@redrive/simulator";
import { niceStep } from "../../components/chart.tsx";

/** Changes to a document; undefined removes a field. */
type Change<T> = { readonly [Field in keyof T]?: T[Field] | undefined };

export function merged<T extends object>(base: T, change: Change<T>): T {
  const entries = Object.entries({ ...base, ...change }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as T;
}

export function isCalls(document: ScenarioDocument): document is CallsDocument {
  return document.world === undefined || document.world === "CALLS";
}

/** True if the contents are equal, regardless of field order. */
export function isSame(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

/** A string that is equal for equal contents. */
export function canonical(value: unknown): string {
  return JSON.stringify(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, part]) => [key, sorted(part)]);
}

export function tiersOf({ tiers }: CallsDocument): readonly TierDocument[] {
  return tiers ?? [{}];
}

function withTier(
  document: CallsDocument,
  index: number,
  change: (tier: TierDocument) => TierDocument,
): CallsDocument {
  const tiers = tiersOf(document).map((tier, position) =>
    position === index ? change(tier) : tier,
  );
  return { ...document, tiers };
}

/** The innermost server, which the faults affect. */
export function serverOf(document: CallsDocument): ServerDocument {
  return tiersOf(document).at(-1)?.server ?? {};
}

export function withServer(document: CallsDocument, change: Change<ServerDocument>): CallsDocument {
  const last = tiersOf(document).length - 1;
  return withTier(document, last, (tier) => ({
    ...tier,
    server: merged(tier.server ?? {}, change),
  }));
}

/** The mean or median of a duration distribution, which a slider can move. */
export function middleOf(duration: DurationDocument = 0): number {
  if (typeof duration === "number") return duration;
  switch (duration.kind) {
    case "FIXED":
      return duration.ms;
    case "UNIFORM":
      return (duration.minMs + duration.maxMs) / 2;
    case "EXPONENTIAL":
    case "NORMAL":
      return duration.meanMs;
    case "LOGNORMAL":
      return duration.medianMs;
  }
}

export function withMiddle(duration: DurationDocument | undefined, ms: number): DurationDocument {
  if (duration === undefined || typeof duration === "number") return ms;
  switch (duration.kind) {
    case "FIXED":
      return { ...duration, ms };
    case "UNIFORM": {
      const half = Math.min(ms, (duration.maxMs - duration.minMs) / 2);
      return { ...duration, minMs: ms - half, maxMs: ms + half };
    }
    case "EXPONENTIAL":
    case "NORMAL":
      return { ...duration, meanMs: ms };
    case "LOGNORMAL":
      return { ...duration, medianMs: ms };
  }
}

/** The policy of a layer as a document. A preset name is resolved. */
export function policyOf(document: CallsDocument, tier: number): PolicyDocument {
  const { policy = "default" } = tiersOf(document)[tier]?.destination ?? {};
  return typeof policy === "string" ? preset(policy) : policy;
}

/** The scenario with another policy on one layer. */
export function withWholePolicy(
  document: CallsDocument,
  tier: number,
  policy: PolicyDocument,
): CallsDocument {
  return withTier(document, tier, (one) => ({
    ...one,
    destination: { ...one.destination, policy },
  }));
}

/** The policy of a scenario without layers. */
export function ownPolicyOf({ policy = {} }: ContentionDocument | QueueDocument): PolicyDocument {
  return typeof policy === "string" ? preset(policy) : policy;
}

/** Changes a policy and keeps it consistent: delays in order, connect timeout within the attempt. */
export function withPolicy(
  document: CallsDocument,
  tier: number,
  change: Change<PolicyDocument>,
): CallsDocument {
  const next: PolicyDocument = merged(policyOf(document, tier), change);
  return withTier(document, tier, (one) => ({
    ...one,
    destination: { ...one.destination, policy: merged(next, adjustmentsFor(next, change)) },
  }));
}

/** Adjusts the other fields to the changed one. */
function adjustmentsFor(
  policy: PolicyDocument,
  change: Change<PolicyDocument>,
): Change<PolicyDocument> {
  const { attemptTimeoutMs = 10_000, connectTimeoutMs, minCallMs = 1, delaysMs } = policy;
  const { totalBudgetMs = 30_000, maxDelayMs = 30_000 } = policy;
  const connect = connectTimeoutMs && Math.min(connectTimeoutMs, attemptTimeoutMs);
  const timeouts = { connectTimeoutMs: connect };
  if (delaysMs !== undefined) {
    return { ...timeouts, totalBudgetMs: Math.max(totalBudgetMs, (delaysMs[0] ?? 0) + minCallMs) };
  }
  const maxFirstMs = Math.min(
    change.maxDelayMs ?? Number.POSITIVE_INFINITY,
    (change.totalBudgetMs ?? Number.POSITIVE_INFINITY) - minCallMs,
  );
  const { initialDelayMs = 100 } = policy;
  const firstMs = Math.min(initialDelayMs, maxFirstMs);
  return {
    ...timeouts,
    ...(firstMs !== initialDelayMs && { initialDelayMs: firstMs }),
    ...(firstMs > maxDelayMs && { maxDelayMs: firstMs }),
    ...(firstMs + minCallMs > totalBudgetMs && { totalBudgetMs: firstMs + minCallMs }),
    throttleDelayMs: undefined,
  };
}

export const guardNames = ["retryBudget", "breaker", "concurrency", "hedge"] as const;
export type GuardName = (typeof guardNames)[number];
export type GuardOptions<G extends GuardName> = Exclude<DestinationDocument[G], false | undefined>;

/** Guards on every layer that retries. Concurrency limit and hedge belong next to the server. */
const AT_EVERY_LAYER: readonly GuardName[] = ["retryBudget", "breaker"];

/** The options of a guard on the outermost layer that has it; undefined if it is off. */
export function guardOf<G extends GuardName>(
  document: CallsDocument,
  guard: G,
): GuardOptions<G> | undefined {
  for (const { destination } of tiersOf(document)) {
    const options = destination?.[guard];
    if (options) return options as GuardOptions<G>;
  }
  return undefined;
}

/** Switches a guard on with its options, or off on every layer. */
export function withGuard<G extends GuardName>(
  document: CallsDocument,
  guard: G,
  options: GuardOptions<G> | undefined,
): CallsDocument {
  const tiers = tiersOf(document);
  const isOn = guardOf(document, guard) !== undefined;
  const next = tiers.map((tier, index) => {
    const has = Boolean(tier.destination?.[guard]);
    const wants = isOn ? has : AT_EVERY_LAYER.includes(guard) || index === tiers.length - 1;
    const change = { [guard]: wants ? options : undefined } as Change<DestinationDocument>;
    return { ...tier, destination: merged(tier.destination ?? {}, change) };
  });
  return { ...document, tiers: next };
}

const NO_GUARDS: Change<DestinationDocument> = {
  retryBudget: undefined,
  breaker: undefined,
  concurrency: undefined,
  rate: undefined,
  hedge: undefined,
};

export function hasGuards(document: ScenarioDocument): boolean {
  return isCalls(document) && !isSame(document, unguarded(document));
}

/** The same scenario without guards. */
export function unguarded(document: CallsDocument): CallsDocument {
  if (document.tiers === undefined) return document;
  const tiers = document.tiers.map((tier) =>
    tier.destination === undefined
      ? tier
      : { ...tier, destination: merged(tier.destination, NO_GUARDS) },
  );
  return { ...document, tiers };
}

export const MAX_LAYERS = 3;

/** Removes outer layers, or adds outer layers that retry like the outermost one. */
export function withLayers(document: CallsDocument, count: number): CallsDocument {
  let next = document;
  while (tiersOf(next).length > count) next = unwrapped(next);
  while (tiersOf(next).length < count) next = wrapped(next);
  return next;
}

function unwrapped(document: CallsDocument): CallsDocument {
  const timeline = (document.timeline ?? [])
    .filter(({ tier }) => tier !== 0)
    .map((phase) => shifted(phase, -1));
  return merged(document, { tiers: tiersOf(document).slice(1), timeline });
}

/** The largest attempt timeout that a policy accepts. */
const MAX_ATTEMPT_MS = 600_000;

/** The new layer waits for all attempts of the layer that it calls, and has the same guards. */
function wrapped(document: CallsDocument): CallsDocument {
  const tiers = tiersOf(document);
  const inner = policyOf(document, 0);
  const { maxAttempts = 5, attemptTimeoutMs = 10_000, totalBudgetMs = 30_000 } = inner;
  const timeoutMs = Math.min(MAX_ATTEMPT_MS, attemptTimeoutMs * maxAttempts + 1000);
  const { retryBudget, breaker } = tiers[0]?.destination ?? {};
  const outer: TierDocument = {
    name: OUTER_NAMES[tiers.length - 1] ?? "outer",
    destination: merged<DestinationDocument>(
      {
        policy: merged(inner, {
          attemptTimeoutMs: timeoutMs,
          totalBudgetMs: Math.max(totalBudgetMs, timeoutMs * maxAttempts),
        }),
      },
      { retryBudget, breaker },
    ),
    server: { hop: 1 },
  };
  const timeline = document.timeline?.map((phase) => shifted(phase, 1));
  return merged(document, { tiers: [outer, ...tiers], timeline });
}

/** From the inside out. */
const OUTER_NAMES = ["gateway", "edge"];

/** A phase without a layer affects the innermost one and does not move. */
function shifted(phase: PhaseDocument, by: number): PhaseDocument {
  return phase.tier === undefined ? phase : { ...phase, tier: phase.tier + by };
}

// Phases: the kinds of faults on the track, their labels, and how they move and resize.

/** The field that sets the severity of a fault, and its range. */
interface Strength {
  readonly field: "share" | "factor";
  readonly label: string;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly defaultValue: number;
}

interface PhaseKindInfo {
  readonly kind: PhaseKind;
  readonly label: string;
  readonly hint: string;
  readonly strength?: Strength;
}

const FACTOR = { field: "factor", unit: "x", step: 0.05 } as const;

export const phaseKinds: readonly PhaseKindInfo[] = [
  { kind: "OUTAGE", label: "Full outage", hint: "every call fails" },
  {
    kind: "PARTIAL",
    label: "Partial outage",
    hint: "some calls fail",
    strength: {
      field: "share",
      label: "Share of calls that fail",
      unit: "of 1",
      min: 0,
      max: 1,
      step: 0.01,
      defaultValue: 0.5,
    },
  },
  {
    kind: "SLOW",
    label: "Slow responses",
    hint: "every response takes longer",
    strength: { ...FACTOR, label: "Times as long", min: 1, max: 50, defaultValue: 2 },
  },
  {
    kind: "CAPACITY",
    label: "Capacity dip",
    hint: "the server serves fewer calls",
    strength: { ...FACTOR, label: "Times the capacity", min: 0, max: 2, defaultValue: 0.2 },
  },
  {
    kind: "SPIKE",
    label: "Load spike",
    hint: "more calls arrive; needs open clients",
    strength: { ...FACTOR, label: "Times the load", min: 0, max: 20, defaultValue: 2 },
  },
  { kind: "FAILOVER", label: "Failover", hint: "an outage that loses the queue, then warms up" },
];

export function kindInfo(kind: PhaseKind): PhaseKindInfo {
  return phaseKinds.find((one) => one.kind === kind) ?? (phaseKinds[0] as PhaseKindInfo);
}

export function strengthOf(phase: PhaseDocument): number | undefined {
  const { strength } = kindInfo(phase.kind);
  return strength && (phase[strength.field] ?? strength.defaultValue);
}

/** For example "Capacity dip 0.2 x, 10 s to 20 s". */
export function phaseSentence(phase: PhaseDocument): string {
  const from = phase.atMs === 0 ? "0" : formatDuration(phase.atMs);
  return `${phaseName(phase)}, ${from} to ${formatDuration(phase.atMs + phase.forMs)}`;
}

/** The kind and its strength. */
export function phaseName(phase: PhaseDocument): string {
  const { label, strength } = kindInfo(phase.kind);
  const value = strengthOf(phase);
  if (strength === undefined || value === undefined) return label;
  return `${label} ${strength.field === "share" ? formatPercent(value) : `${formatNumber(value)} x`}`;
}

/** The limit of a scenario document. */
export const MAX_PHASES = 64;

const MAX_MS = 86_400_000;

/** The step of a drag or an arrow key: a round value, about 1/300 of the track. */
export function stepFor(endMs: number): number {
  return Math.max(1, niceStep(endMs / 300));
}

function snapped(ms: number, stepMs: number): number {
  return Math.round(ms / stepMs) * stepMs;
}

/** Moves the phase within the track. */
export function movePhase(phase: PhaseDocument, atMs: number, endMs: number): PhaseDocument {
  const last = Math.min(MAX_MS, Math.max(phase.atMs, endMs - phase.forMs));
  return { ...phase, atMs: within(snapped(atMs, stepFor(endMs)), 0, last) };
}

/** Moves the start; the end stays. */
export function moveStart(phase: PhaseDocument, atMs: number, endMs: number): PhaseDocument {
  const stopMs = phase.atMs + phase.forMs;
  const stepMs = stepFor(endMs);
  const begin = within(snapped(atMs, stepMs), 0, Math.max(0, stopMs - stepMs));
  return { ...phase, atMs: begin, forMs: stopMs - begin };
}

/** Moves the end; the start stays. */
export function moveEnd(phase: PhaseDocument, stopMs: number, endMs: number): PhaseDocument {
  const stepMs = stepFor(endMs);
  const last = Math.max(endMs, phase.atMs + phase.forMs);
  const stop = within(snapped(stopMs, stepMs), Math.min(last, phase.atMs + stepMs), last);
  return { ...phase, forMs: within(stop - phase.atMs, 1, MAX_MS) };
}

function within(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** A new phase, in the first gap of the track that is long enough. */
export function newPhase(
  kind: PhaseKind,
  phases: readonly PhaseDocument[],
  endMs: number,
  atMs = gapFor(phases, endMs),
): PhaseDocument {
  return { kind, atMs: snapped(atMs, stepFor(endMs)), forMs: lengthFor(endMs) };
}

function lengthFor(endMs: number): number {
  return Math.max(1, niceStep(endMs / 10));
}

function gapFor(phases: readonly PhaseDocument[], endMs: number): number {
  const lengthMs = lengthFor(endMs);
  const isFree = (atMs: number) =>
    phases.every((one) => atMs >= one.atMs + one.forMs || atMs + lengthMs <= one.atMs);
  for (let atMs = lengthMs; atMs + lengthMs < endMs; atMs += lengthMs / 2) {
    if (isFree(atMs)) return atMs;
  }
  return lengthMs;
}

/** Changes the kind of a fault. Keeps time and layer, drops other fields. */
export function withKind({ atMs, forMs, tier }: PhaseDocument, kind: PhaseKind): PhaseDocument {
  return { kind, atMs, forMs, ...(tier !== undefined && { tier }) };
}

/** The row of each phase: phases that overlap get different rows. */
export function rowsOf(phases: readonly PhaseDocument[]): readonly number[] {
  const ends: number[] = [];
  const order = phases.map((_, index) => index).sort((a, b) => startOf(a) - startOf(b));
  const rows = new Map<number, number>();
  for (const index of order) {
    const free = ends.findIndex((end) => end <= startOf(index));
    const row = free < 0 ? ends.length : free;
    ends[row] = startOf(index) + (phases[index]?.forMs ?? 0);
    rows.set(index, row);
  }
  return phases.map((_, index) => rows.get(index) ?? 0);

  function startOf(index: number): number {
    return phases[index]?.atMs ?? 0;
  }
}

/** In menu order. */
export const strategyLabels: Readonly<Record<string, string>> = {
  full: "exponential, full jitter",
  equal: "exponential, equal jitter",
  decorrelated: "decorrelated jitter",
  none: "exponential, no jitter",
  linear: "linear, no jitter",
  fixed: "fixed, no jitter",
  immediate: "immediate, no wait",
};

/** The id of a policy's strategy; empty if it has a custom one. */
export function strategyOf(document: PolicyDocument): string {
  const { backoff, jitterType, initialDelayMs, delaysMs } = resolvePolicy(document);
  if (delaysMs !== undefined) return "";
  if (backoff === "EXPONENTIAL") {
    const id = jitterType.toLowerCase();
    return Object.hasOwn(strategyLabels, id) ? id : "";
  }
  if (jitterType !== "NONE") return "";
  if (backoff === "FIXED") return initialDelayMs === 0 ? "immediate" : "fixed";
  return "linear";
}

/** Fields to remove before another strategy is set. */
const CLEARED = {
  backoff: undefined,
  jitterType: undefined,
  jitterRatio: undefined,
  delaysMs: undefined,
} as const;

/** The scenario with another strategy on one layer. */
export function withLayerStrategy(
  document: CallsDocument,
  tier: number,
  name: string,
): CallsDocument {
  return withPolicy(document, tier, {
    ...CLEARED,
    ...withStrategy(policyOf(document, tier), name),
  });
}

const FIRST_WAIT_MS = 100;

/** Changes only growth and jitter; attempts, delays and limits stay. */
export function withStrategy(document: PolicyDocument, name: string): PolicyDocument {
  const curve = merged(document, {
    ...CLEARED,
    ...(document.initialDelayMs === 0 && { initialDelayMs: FIRST_WAIT_MS }),
    ...(document.delaysMs !== undefined && { maxAttempts: document.delaysMs.length + 1 }),
  });
  if (name === "immediate") {
    return { ...curve, backoff: "FIXED", initialDelayMs: 0, jitterType: "NONE" };
  }
  return strategyDocument(name, curve) ?? document;
}

// Lint subject: what lint checks of a scenario, and the scenario with a fixed subject.

type Subject = DestinationDocument | LintTiers;

/** With several layers, all of them, because lint sees multiplied retries only in all layers. */
export function lintSubjectOf(document: CallsDocument): Subject {
  const tiers = tiersOf(document);
  const policyAt = (index: number) => policyOf(document, index);
  if (tiers.length === 1) return { ...tiers[0]?.destination, policy: policyAt(0) };
  return {
    tiers: tiers.map(({ name, destination }, index) => ({
      ...(name !== undefined && { name }),
      policy: policyAt(index),
      ...(destination?.retryBudget !== undefined && { retryBudget: destination.retryBudget }),
    })),
  };
}

export function lintContextOf(document: CallsDocument): LintContext {
  const outages = (document.timeline ?? []).filter(
    ({ kind }) => kind === "OUTAGE" || kind === "FAILOVER",
  );
  return {
    clients: document.clients.count ?? 1,
    shards: serverOf(document).shards ?? 1,
    breakerPerShard: tiersOf(document).at(-1)?.breakerPerShard ?? false,
    ...(outages.length > 0 && { outageMs: Math.max(...outages.map(({ forMs }) => forMs)) }),
  };
}

/** The scenario with the fixed subject. */
export function withFix(document: CallsDocument, fixed: Subject): CallsDocument {
  const tiers = tiersOf(document).map((tier, index) => {
    if (!("tiers" in fixed)) return { ...tier, destination: fixed };
    const { policy, retryBudget } = fixed.tiers[index] ?? {};
    return {
      ...tier,
      destination: {
        ...tier.destination,
        ...(policy !== undefined && { policy }),
        ...(retryBudget !== undefined && { retryBudget }),
      },
    };
  });
  return { ...document, tiers };
}
