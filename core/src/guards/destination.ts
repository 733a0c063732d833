/**
 * Destination: the document that describes a collision domain, everything that contends for one
 * dependency, and the guards it has. The same JSON goes to `destination()` in the library, to the
 * service's `PUT /destinations/{name}` and into a scenario of the simulator.
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
  /** Calls a second that may leave. 0.001 to 1 000 000. Default: no limit. */
  readonly perSecond?: number;
  /** Calls that may leave at once after a pause. 1 to 1 000 000. Default: `perSecond`, at least 1. */
  readonly burst?: number;
  /** Slow down on throttling answers as the AWS SDKs do. Default: false. */
  readonly adaptive?: boolean;
  /** Refuse calls locally by the SRE book's formula: `true`, or its own fields. Default: false. */
  readonly throttle?: boolean | Partial<ThrottleOptions>;
}

type BreakerDocument = {
  readonly [field in keyof BreakerOptions]?: NonNullable<BreakerOptions[field]>;
};

/** A destination as people write it. `false` turns a guard off where it is on by default. */
export interface DestinationDocument {
  /** Why these numbers. At most 500 characters. */
  readonly description?: string;
  /** A policy's document, or a preset's name. Default: `default`; in the service `background`. */
  readonly policy?: PolicyDocument | PresetName;
  /** Every call here may be repeated, whatever its method. */
  readonly idempotent?: boolean;
  readonly retryBudget?: RetryBudgetDocument | false;
  readonly breaker?: BreakerDocument | false;
  readonly concurrency?: Partial<ConcurrencyOptions> | false;
  readonly rate?: RateDocument | false;
  readonly hedge?: Partial<HedgeOptions> | false;
  readonly retryAfterGate?: Partial<GateOptions> | false;
}

/** What the rate part comes to: up to three limiters. */
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

/** Which guards are on when the document does not say, and which policy. */
export type DestinationDefaults = "library" | "service" | "simulator";

const DEFAULT_POLICY: Readonly<Record<DestinationDefaults, PresetName>> = {
  library: "default",
  service: "background",
  simulator: "default",
};

/** Everything wrong with a destination document; an empty list means it will be taken. */
export const checkDestination: (document: unknown) => readonly FieldProblem[] = checkParts;

/** Checks a document and fills in its defaults; throws `INVALID_DESTINATION` with what is wrong. */
export function resolveDestination(
  document: DestinationDocument = {},
  defaults: DestinationDefaults = "library",
): Destination {
  const problems = checkDestination(document);
  if (problems.length > 0) throw new DocumentError("INVALID_DESTINATION", problems);
  const inService = defaults === "service";
  return {
    policy: resolvePolicy(policyDocumentOf(document.policy ?? DEFAULT_POLICY[defaults])),
    idempotent: document.idempotent,
    retryBudget: budgetOf(document.retryBudget ?? (defaults === "simulator" ? false : {})),
    breaker: breakerOf(document.breaker ?? (inService ? {} : false)),
    concurrency: concurrencyOf(document.concurrency ?? (inService ? {} : false)),
    rate: rateOf(document.rate ?? false),
    hedge: withDefaults(document.hedge ?? false, HEDGE_DEFAULTS),
    retryAfterGate: withDefaults(
      document.retryAfterGate ?? (inService ? {} : false),
      GATE_DEFAULTS,
    ),
  };
}

/** The part with its defaults; fields given as undefined count as left out. */
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
 * After a gate has lifted, one call goes first and the others follow one by one. The concurrency
 * limit does that; a gate without one gets a limit that no traffic reaches.
 */
const GATE_RAMP: ConcurrencyOptions = {
  algorithm: "FIXED",
  max: 100_000,
  maxRetries: 100_000,
  queue: 1_000_000,
};

/** The guards of a destination, as `createGuards` takes them. */
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
