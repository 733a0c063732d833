/**
 * Subject: what lint looks at, in one shape whatever was handed in: a policy, a destination or a set
 * of tiers, with what is known of their use.
 */
import {
  type CompiledPolicy,
  compiledPolicyOf,
  type Destination,
  type DestinationDocument,
  isObject,
  type Policy,
  type PolicyDocument,
  type PresetName,
  resolveDestination,
} from "@redrive/core";
import { policyOf } from "../schedule/policy-of.ts";

/** Clients that are taken to fail at one instant where nobody says how many. */
export const LINT_CLIENTS = 100;

/** What is known of the calls. The more is told, the more lint can say. */
export interface LintContext {
  /** Clients that may fail at one instant. 1 to 2 000 000. Default: 100. */
  readonly clients?: number;
  /** HTTP method, in capitals. */
  readonly method?: string;
  /** The caller's word on whether repeating is harmless. */
  readonly idempotent?: boolean;
  /** Who waits for the answer. */
  readonly waits?: "person" | "service" | "job";
  /** The longest outage to survive. */
  readonly outageMs?: number;
  /** No retry may come earlier. */
  readonly minimumWaitMs?: number;
  /** Parts the dependency is made of that fail by themselves. Default: 1. */
  readonly shards?: number;
  /** The breaker is kept per shard. Default: false. */
  readonly breakerPerShard?: boolean;
  /** The calls are messages of a queue; `null`: no limit on how often one is handed out. */
  readonly maxReceives?: number | null;
}

export interface LintTier {
  readonly name?: string;
  readonly policy?: PolicyDocument | PresetName;
  readonly retryBudget?: DestinationDocument["retryBudget"];
}

/** Layers that call one another, outermost first. */
export interface LintTiers {
  readonly tiers: readonly LintTier[];
}

export type LintSubject = PolicyDocument | PresetName | DestinationDocument | LintTiers;

/** One policy with everything known around it. */
export interface Target {
  readonly policy: Policy;
  readonly kernel: CompiledPolicy;
  /** Undefined when only a policy was given: then nothing is known of guards. */
  readonly destination: Destination | undefined;
  readonly context: LintContext;
  readonly clients: number;
}

const DESTINATION_PARTS = [
  "policy",
  "retryBudget",
  "breaker",
  "concurrency",
  "rate",
  "hedge",
  "idempotent",
];

export function isTiers(subject: LintSubject): subject is LintTiers {
  return isObject(subject) && Array.isArray(subject["tiers"]);
}

export function targetOf(subject: Exclude<LintSubject, LintTiers>, context: LintContext): Target {
  const isDestination = isObject(subject) && DESTINATION_PARTS.some((part) => part in subject);
  const destination = isDestination
    ? resolveDestination(subject as DestinationDocument, "simulator")
    : undefined;
  const policy = destination?.policy ?? policyOf(subject as PolicyDocument | PresetName);
  return {
    policy,
    kernel: compiledPolicyOf(policy),
    destination,
    context,
    clients: context.clients ?? LINT_CLIENTS,
  };
}
