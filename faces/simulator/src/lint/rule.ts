/**
 * Rule: checks a policy for one problem and describes it with figures. Its target is the input of
 * lint (a policy, a destination or a set of tiers) and what is known about its use, in one form.
 */
import {
  type CompiledPolicy,
  compiledPolicyOf,
  type Destination,
  type DestinationDocument,
  isObject,
  type Patience,
  type Policy,
  type PolicyDocument,
  type PresetName,
  resolveDestination,
} from "@redrive/core";
import { COVERAGE_SAMPLES } from "../schedule/coverage.ts";
import { policyOf } from "../schedule/waits.ts";

export type Severity = "error" | "warning" | "info";

export interface Finding {
  readonly id: string;
  readonly severity: Severity;
  /**
   * The field that causes it, such as `jitterType`; with tiers, prefixed by the name of the tier.
   */
  readonly field: string;
  /** One sentence that contains the figures. */
  readonly sentence: string;
  /** What to change. */
  readonly fix: string;
  /** The figures of the sentence, for programs. */
  readonly figures: Readonly<Record<string, number>>;
  readonly docs: string;
}

/** The result of a rule. Lint adds the id and the link to the docs. */
export interface Found {
  readonly severity: Severity;
  readonly field: string;
  readonly sentence: string;
  readonly fix: string;
  readonly figures: Readonly<Record<string, number>>;
}

export interface Rule {
  readonly id: string;
  /** The failure mode that the rule finds. */
  readonly problem: string;
  check(target: Target): Found | undefined;
}

/** From this many clients on, synchronized retries matter. */
export const MIN_HERD = 10;

/** Enough samples for a figure in a sentence: +-2 percentage points. */
export const SAMPLES = 2000;

/** The maximum of simulated attempts for one figure, which take a fraction of a second. */
const MAX_SAMPLED_ATTEMPTS = 2_000_000;

/**
 * The number of simulated calls for the coverage of an outage. It is the default of `coverage`, so
 * lint reports the same figure as the curve. It is lower for calls with more than a hundred
 * attempts.
 */
export function sampleCalls({ maxAttempts }: Policy): number {
  return Math.max(
    SAMPLES,
    Math.min(COVERAGE_SAMPLES, Math.floor(MAX_SAMPLED_ATTEMPTS / maxAttempts)),
  );
}

/** The default number of clients that fail at one instant. */
export const LINT_CLIENTS = 100;

/** What is known about the calls. The more you give, the more lint can report. */
export interface LintContext {
  /** Clients that may fail at one instant. 1 to 2 000 000. Default: 100. */
  readonly clients?: number;
  /** Of the clients, how many share one process and so the guards. Default: all of them. */
  readonly callsPerProcess?: number;
  /** What a call does when a guard refuses an attempt. Default: fail-fast. */
  readonly patience?: Patience;
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
  /** The same as it was written. */
  readonly document: DestinationDocument | undefined;
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
  const document = isDestination ? (subject as DestinationDocument) : undefined;
  const destination = document && resolveDestination(document, "simulator");
  const policy = destination?.policy ?? policyOf(subject as PolicyDocument | PresetName);
  return {
    policy,
    compiled: compiledPolicyOf(policy),
    destination,
    document,
    context,
    clients: context.clients ?? LINT_CLIENTS,
  };
}
