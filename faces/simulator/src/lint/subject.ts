/**
 * Subject: the input of lint (a policy, a destination or a set of tiers) and what is known about
 * its use, in one form for all rules.
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

/** The default number of clients that fail at one instant. */
export const LINT_CLIENTS = 100;

/** What is known about the calls. The more you give, the more lint can report. */
export interface LintContext {
  /** Clients that may fail at one instant. 1 to 2 000 000. Default: 100. */
  readonly clients?: number;
  /** HTTP method, in uppercase. */
  readonly method?: string;
  /** The caller's statement that repeating is safe. */
  readonly idempotent?: boolean;
  /** Who waits for the response. */
  readonly waits?: "person" | "service" | "job";
  /** The longest outage to survive. */
  readonly outageMs?: number;
  /** The minimum wait before a retry. */
  readonly minimumWaitMs?: number;
  /** Parts of the dependency that fail independently. Default: 1. */
  readonly shards?: number;
  /** Each shard has its own breaker. Default: false. */
  readonly breakerPerShard?: boolean;
  /** For messages of a queue: the maximum receives, or `null` for no limit. */
  readonly maxReceives?: number | null;
}

export interface LintTier {
  readonly name?: string;
  readonly policy?: PolicyDocument | PresetName;
  readonly retryBudget?: DestinationDocument["retryBudget"];
}

/** Layers that call each other, outermost first. */
export interface LintTiers {
  readonly tiers: readonly LintTier[];
}

export type LintSubject = PolicyDocument | PresetName | DestinationDocument | LintTiers;

/** One policy with all that is known about it. */
export interface Target {
  readonly policy: Policy;
  readonly compiled: CompiledPolicy;
  /** Undefined if only a policy was given; then nothing is known about guards. */
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
    compiled: compiledPolicyOf(policy),
    destination,
    context,
    clients: context.clients ?? LINT_CLIENTS,
  };
}
