/**
 * Scenario: a checked scenario of calls with all defaults filled in. The worlds run this form, not
 * the document.
 */
import { type Destination, DocumentError, type Patience, resolveDestination } from "@redrive/core";
import { assertAtMost } from "../engine/run.ts";
import {
  type CallsDocument,
  type ClosedClients,
  checkScenario,
  type OpenClients,
  type PhaseDocument,
  type ScenarioDocument,
  type ServerDocument,
  type TierDocument,
} from "./scenario-document.ts";

/** A scenario of calls with all defaults filled in. */
export interface CallsScenario {
  readonly world: "CALLS";
  readonly name: string;
  readonly horizonMs: number;
  readonly windowMs: number;
  readonly clients: OpenClients | ClosedClients;
  readonly guards: "PER_CLIENT" | "SHARED";
  readonly patience: Patience;
  readonly tiers: readonly Tier[];
  readonly timeline: readonly PhaseDocument[];
}

export interface Tier {
  readonly name: string;
  readonly destination: Destination;
  readonly breakerPerShard: boolean;
  readonly server: ServerDocument;
}

/** Checks a scenario. Throws `INVALID_ARGUMENT` with all problems. */
export function assertScenario(document: unknown): ScenarioDocument {
  const problems = checkScenario(document);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  return document as ScenarioDocument;
}

export const DEFAULT_HORIZON_MS = 60_000;
export const DEFAULT_WINDOW_MS = 100;

/**
 * Limits on expected calls and on sets of guards (6 kB each), so a mistyped number does not use up
 * the memory.
 */
const MAX_CALLS = 100_000_000;
const MAX_GUARDS = 100_000;

/**
 * Fills in the defaults of a checked scenario of calls. Throws `INVALID_ARGUMENT` if it is too
 * large.
 */
export function resolveCalls(document: CallsDocument): CallsScenario {
  const scenario = complete(document);
  const { clients, horizonMs, guards } = scenario;
  const calls =
    clients.kind === "CLOSED"
      ? clients.count * (clients.jobs ?? 1)
      : (clients.ratePerSecond * (clients.untilMs ?? horizonMs)) / 1000;
  assertAtMost(calls, MAX_CALLS, "calls");
  const tier = scenario.tiers[0] as Tier;
  if (guards === "PER_CLIENT" && !isPlainTier(tier)) {
    const { shards = 1 } = tier.breakerPerShard && tier.destination.breaker ? tier.server : {};
    assertAtMost((clients.count ?? 1) * shards, MAX_GUARDS, "sets of guards");
  }
  return scenario;
}

/** True if the tier has no guards. */
export function isPlainTier({ destination }: Tier): boolean {
  const { retryBudget, breaker, concurrency, rate, retryAfterGate } = destination;
  return !retryBudget && !breaker && !concurrency && !rate && !retryAfterGate;
}

function complete(document: CallsDocument): CallsScenario {
  return {
    world: "CALLS",
    name: document.name ?? "scenario",
    horizonMs: document.horizonMs ?? DEFAULT_HORIZON_MS,
    windowMs: document.windowMs ?? DEFAULT_WINDOW_MS,
    clients: document.clients,
    guards: document.guards ?? "PER_CLIENT",
    patience: document.patience ?? "fail-fast",
    tiers: (document.tiers ?? [{}]).map(resolveTier),
    timeline: document.timeline ?? [],
  };
}

function resolveTier(tier: TierDocument, index: number): Tier {
  return {
    name: tier.name ?? `tier ${index}`,
    destination: resolveDestination(tier.destination ?? {}, "simulator"),
    breakerPerShard: tier.breakerPerShard ?? false,
    server: tier.server ?? {},
  };
}
