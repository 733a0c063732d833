/**
 * Document: reads and changes scenario documents for the controls. Every change is a pure function
 * from one document to the next.
 */
import { type DestinationDocument, type PolicyDocument, preset } from "@redrive/core";
import type {
  CallsDocument,
  ContentionDocument,
  DurationDocument,
  PhaseDocument,
  QueueDocument,
  ScenarioDocument,
  ServerDocument,
  TierDocument,
} from "@redrive/simulator";

/** Changes to a document; undefined removes a field. */
export type Change<T> = { readonly [Field in keyof T]?: T[Field] | undefined };

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
