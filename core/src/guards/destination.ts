/**
 * Destination: the document that describes one dependency and its guards. All calls that compete for
 * the dependency share it. The same JSON is an argument of `destination()` in the library, the body of
 * the service's `PUT /destinations/{name}` and a part of a simulator scenario.
 */

import { DocumentError, type FieldProblem } from "../documents/document.ts";
import { type Policy, type PolicyDocument, resolvePolicy } from "../policy/policy.ts";
import { type PresetName, policyDocumentOf } from "../policy/preset-policies.ts";
import { ADAPTIVE_RATE_DEFAULTS } from "./adaptive-rate.ts";
import { BREAKER_DEFAULTS, type BreakerOptions } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS, type ConcurrencyOptions } from "./concurrency.ts";
import { checkParts } from "./destination-fields.ts";
import type { GuardOptions } from "./guards.ts";
import { HEDGE_DEFAULTS, type HedgeOptions } from "./hedge.ts";
import type { RateOptions } from "./rate.ts";
import { RATIO_BUDGET_DEFAULTS, type RatioBudgetOptions } from "./ratio-budget.ts";
import { GATE_DEFAULTS, type GateOptions } from "./retry-after-gate.ts";
import {
  GRPC_BUDGET_DEFAULTS,
  type GrpcBudgetOptions,
  type RetryBudgetOptions,
  TOKEN_BUDGET_DEFAULTS,
  type TokenBudgetOptions,
} from "./retry-budget.ts";
import { THROTTLE_DEFAULTS, type ThrottleOptions } from "./throttle.ts";

/** A budget as people write it; without `kind` it is RATIO. */
export type RetryBudgetDocument =
  | ({ readonly kind?: "RATIO" } & Partial<Omit<RatioBudgetOptions, "kind">>)
  | ({ readonly kind: "TOKENS" } & Partial<Omit<TokenBudgetOptions, "kind">>)
  | ({ readonly kind: "GRPC" } & Partial<Omit<GrpcBudgetOptions, "kind">>);

export interface RateDocument {
  /** Calls per second that may start. 0.001 to 1 000 000. Default: no limit. */
  readonly perSecond?: number;
  /** Calls that may start at once after an idle time. 1 to 1 000 000. Default: `perSecond`, at least 1. */
  readonly burst?: number;
  /** Slow down after throttling responses, as the AWS SDKs do. Default: false. */
  readonly adaptive?: boolean;
  /** Refuse calls locally by the SRE book's formula: `true`, or an object with its options. Default: false. */
  readonly throttle?: boolean | Partial<ThrottleOptions>;
}

type BreakerDocument = {
  readonly [field in keyof BreakerOptions]?: NonNullable<BreakerOptions[field]>;
};

/** A destination as people write it. `false` turns a guard off where it is on by default. */
export interface DestinationDocument {
  /** Why these numbers. At most 500 characters. */
  readonly description?: string;
  /** A policy document, or a preset's name. Default: `default`; in the service `background`. */
  readonly policy?: PolicyDocument | PresetName;
  /** Every call to this destination may be repeated, whatever its method. */
  readonly idempotent?: boolean;
  readonly retryBudget?: RetryBudgetDocument | false;
  readonly breaker?: BreakerDocument | false;
  readonly concurrency?: Partial<ConcurrencyOptions> | false;
  readonly rate?: RateDocument | false;
  readonly hedge?: Partial<HedgeOptions> | false;
  readonly retryAfterGate?: Partial<GateOptions> | false;
}

/** The limiters of the rate part, up to three. */
export interface DestinationRate {
  readonly limit: RateOptions | undefined;
  readonly adaptive: boolean;
  readonly throttle: ThrottleOptions | undefined;
}

/** A destination with its defaults filled in. A guard that is undefined is off. */
export interface Destination {
  readonly policy: Policy;
  readonly idempotent: boolean | undefined;
  readonly retryBudget: RetryBudgetOptions | undefined;
  readonly breaker: BreakerOptions | undefined;
  readonly concurrency: ConcurrencyOptions | undefined;
  readonly rate: DestinationRate | undefined;
  readonly hedge: HedgeOptions | undefined;
  readonly retryAfterGate: GateOptions | undefined;
}

/** Selects the guards and the policy for documents that do not name them. */
export type DestinationDefaults = "library" | "service" | "simulator";

/** All problems of a destination document; an empty list means that it is valid. */
export const checkDestination: (document: unknown) => readonly FieldProblem[] = checkParts;

/** Checks a document and fills in its defaults; throws `INVALID_DESTINATION` with all problems. */
export function resolveDestination(
  document: DestinationDocument = {},
  defaults: DestinationDefaults = "library",
): Destination {
  const problems = checkDestination(document);
  if (problems.length > 0) throw new DocumentError("INVALID_DESTINATION", problems);
  const inService = defaults === "service";
  const onInService = inService ? {} : false;
  return {
    policy: resolvePolicy(
      policyDocumentOf(document.policy ?? (inService ? "background" : "default")),
    ),
    idempotent: document.idempotent,
    retryBudget: budgetOf(document.retryBudget ?? (defaults === "simulator" ? false : {})),
    breaker: breakerOf(document.breaker ?? onInService),
    concurrency: concurrencyOf(document.concurrency ?? onInService),
    rate: rateOf(document.rate ?? false),
    hedge: withDefaults(document.hedge ?? false, HEDGE_DEFAULTS),
    retryAfterGate: withDefaults(document.retryAfterGate ?? onInService, GATE_DEFAULTS),
  };
}

/** The part with its defaults; fields with the value undefined count as absent. */
function withDefaults<T extends object>(
  part: { readonly [field in keyof T]?: T[field] | undefined } | false,
  defaults: T,
): T | undefined {
  if (part === false) return undefined;
  const given = Object.entries(part).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as Partial<T>) };
}

function budgetOf(part: RetryBudgetDocument | false): RetryBudgetOptions | undefined {
  if (part === false) return undefined;
  switch (part.kind) {
    case "TOKENS":
      return withDefaults(part, TOKEN_BUDGET_DEFAULTS);
    case "GRPC":
      return withDefaults(part, GRPC_BUDGET_DEFAULTS);
    default:
      return withDefaults<RatioBudgetOptions>({ ...part, kind: "RATIO" }, RATIO_BUDGET_DEFAULTS);
  }
}

function breakerOf(part: BreakerDocument | false): BreakerOptions | undefined {
  const options = withDefaults(part, BREAKER_DEFAULTS);
  if (part === false || options === undefined) return undefined;
  return { ...options, maxOpenMs: part.maxOpenMs ?? Math.max(options.maxOpenMs, options.openMs) };
}

function concurrencyOf(part: Partial<ConcurrencyOptions> | false): ConcurrencyOptions | undefined {
  const options = withDefaults(part, CONCURRENCY_DEFAULTS);
  if (part === false || options === undefined) return undefined;
  return { ...options, maxRetries: part.maxRetries ?? options.max };
}

function rateOf(part: RateDocument | false): DestinationRate | undefined {
  if (part === false) return undefined;
  const { perSecond, throttle = false } = part;
  return {
    limit:
      perSecond === undefined
        ? undefined
        : { perSecond, burst: part.burst ?? Math.max(1, Math.floor(perSecond)) },
    adaptive: part.adaptive ?? false,
    throttle: withDefaults(throttle === true ? {} : throttle, THROTTLE_DEFAULTS),
  };
}

/**
 * After a gate ends, one call starts first and the others follow one by one. The concurrency limit does
 * that, so a gate without one gets a limit that no traffic reaches.
 */
const GATE_RAMP: ConcurrencyOptions = {
  algorithm: "FIXED",
  max: 100_000,
  maxRetries: 100_000,
  queue: 1_000_000,
};

/** The guards of a destination, in the form that `createGuards` takes. */
export function guardOptionsOf({
  retryBudget,
  breaker,
  concurrency,
  rate,
  retryAfterGate,
}: Destination): GuardOptions {
  return {
    retryBudget,
    breaker,
    concurrency: concurrency ?? (retryAfterGate && GATE_RAMP),
    rate: rate?.limit,
    adaptiveRate: rate?.adaptive ? ADAPTIVE_RATE_DEFAULTS : undefined,
    throttle: rate?.throttle,
  };
}
