/**
 * Destination: the document that describes one dependency and its guards. All calls that compete for
 * the dependency share it. The same JSON is an argument of `destination()` in the library, the body of
 * the service's `PUT /destinations/{name}` and a part of a simulator scenario.
 */
import {
  checkPolicy,
  POLICY_FIELDS,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
} from "../decide/policy.ts";
import { type PresetName, policyDocumentOf, presetPolicies } from "../decide/presets.ts";
import {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  listRule,
  mustBeProblem,
  numberRule,
  type Rule,
  textRule,
} from "../documents/document.ts";
import { BREAKER_DEFAULTS, type BreakerOptions } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS, type ConcurrencyOptions } from "./concurrency.ts";
import { GATE_DEFAULTS, type GateOptions, type GuardOptions } from "./guards.ts";
import { HEDGE_DEFAULTS, type HedgeOptions } from "./hedge.ts";
import { ADAPTIVE_RATE_DEFAULTS, type RateOptions } from "./rate.ts";
import {
  GRPC_BUDGET_DEFAULTS,
  type GrpcBudgetOptions,
  RATIO_BUDGET_DEFAULTS,
  type RatioBudgetOptions,
  type RetryBudgetOptions,
  TOKEN_BUDGET_DEFAULTS,
  type TokenBudgetOptions,
} from "./retry-budget.ts";
import { THROTTLE_DEFAULTS, type ThrottleOptions } from "./throttle.ts";

/** A budget as people write it; without `kind` it is RATIO. */
export type RetryBudgetDocument =
  | ({ readonly kind?: "RATIO" | undefined } & PartOf<Omit<RatioBudgetOptions, "kind">>)
  | ({ readonly kind: "TOKENS" } & PartOf<Omit<TokenBudgetOptions, "kind">>)
  | ({ readonly kind: "GRPC" } & PartOf<Omit<GrpcBudgetOptions, "kind">>);

/** Some of the options; a field with the value undefined counts as absent. */
type PartOf<Options> = { readonly [field in keyof Options]?: Options[field] | undefined };

interface RateDocument {
  /** Calls per second that may start. 0.001 to 1 000 000. Default: no limit. */
  readonly perSecond?: number | undefined;
  /** Calls that may start at once after an idle time. 1 to 1 000 000. Default: `perSecond`, at least 1. */
  readonly burst?: number | undefined;
  /** Slow down after throttling responses, as the AWS SDKs do. Default: false. */
  readonly adaptive?: boolean | undefined;
  /** Refuse calls locally by the SRE book's formula: `true`, or an object with its options. Default: false. */
  readonly throttle?: boolean | PartOf<ThrottleOptions> | undefined;
}

/** A destination as people write it. `false` turns a guard off where it is on by default. */
export interface DestinationDocument {
  /** Why these numbers. At most 500 characters. */
  readonly description?: string | undefined;
  /** A policy document, or a preset's name. Default: `default`; in the service `background`. */
  readonly policy?: PolicyDocument | PresetName | undefined;
  /** Every call to this destination may be repeated, whatever its method. */
  readonly idempotent?: boolean | undefined;
  readonly retryBudget?: RetryBudgetDocument | false | undefined;
  readonly breaker?: PartOf<BreakerOptions> | false | undefined;
  readonly concurrency?: PartOf<ConcurrencyOptions> | false | undefined;
  readonly rate?: RateDocument | false | undefined;
  readonly hedge?: PartOf<HedgeOptions> | false | undefined;
  readonly retryAfterGate?: PartOf<GateOptions> | false | undefined;
}

/** The limiters of the rate part, up to three. */
interface DestinationRate {
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
type DestinationDefaults = "library" | "service" | "simulator";

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

function breakerOf(part: PartOf<BreakerOptions> | false): BreakerOptions | undefined {
  const options = withDefaults(part, BREAKER_DEFAULTS);
  if (part === false || options === undefined) return undefined;
  return { ...options, maxOpenMs: part.maxOpenMs ?? Math.max(options.maxOpenMs, options.openMs) };
}

function concurrencyOf(part: PartOf<ConcurrencyOptions> | false): ConcurrencyOptions | undefined {
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
  rampFactor: CONCURRENCY_DEFAULTS.rampFactor,
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

// The ranges of the document's parts, and the rules that involve several fields.

const DAY_MS = 86_400_000;
const MILLION = 1_000_000;

/** `checkParts` checks the content of parts; this rule only checks that they are objects or false. */
const partRule: Rule = (value) =>
  value === false || isObject(value) ? undefined : "an object, or false";

const DESTINATION_FIELDS: Fields = {
  description: POLICY_FIELDS["description"] as Rule,
  policy: (value) => (typeof value === "string" ? presetRule(value) : objectRule(value)),
  idempotent: booleanRule,
  retryBudget: partRule,
  breaker: partRule,
  concurrency: partRule,
  rate: partRule,
  hedge: partRule,
  retryAfterGate: partRule,
};

const presetRule: Rule = choiceRule(...Object.keys(presetPolicies));
const objectRule: Rule = (value) =>
  isObject(value) ? undefined : "a policy document or a preset's name";

/** A budget of an unknown kind is checked with `ratioFields`, and the message lists the kinds. */
const kindRule: Rule = choiceRule("RATIO", "TOKENS", "GRPC");

const ratioFields: Fields = {
  kind: kindRule,
  ratio: numberRule(0, 10, true),
  minPerSecond: numberRule(0, 1000, true),
  windowMs: numberRule(100, 3_600_000),
};

const tokenFields: Fields = {
  kind: kindRule,
  maxTokens: numberRule(1, MILLION),
  costPerRetry: numberRule(1, MILLION),
  costPerThrottle: numberRule(1, MILLION),
  refillPerSuccess: numberRule(0, MILLION),
};

const grpcFields: Fields = {
  kind: kindRule,
  maxTokens: numberRule(1, 1000, true),
  tokenRatio: numberRule(0.001, 1000, true),
};

const breakerFields: Fields = {
  failureRate: numberRule(0.01, 1, true),
  slowCallMs: numberRule(1, 600_000),
  slowRate: numberRule(0.01, 1, true),
  windowMs: numberRule(100, 3_600_000),
  minCalls: numberRule(1, MILLION),
  openMs: numberRule(1, DAY_MS),
  maxOpenMs: numberRule(1, DAY_MS),
  halfOpenProbes: numberRule(1, 10),
};

const concurrencyFields: Fields = {
  algorithm: choiceRule("FIXED", "GRADIENT", "VEGAS", "AIMD"),
  max: numberRule(1, 100_000),
  maxRetries: numberRule(0, 100_000),
  queue: numberRule(0, MILLION),
  rampFactor: numberRule(1, 1000, true),
};

const rateFields: Fields = {
  perSecond: numberRule(0.001, MILLION, true),
  burst: numberRule(1, MILLION),
  adaptive: booleanRule,
  throttle: (value) =>
    typeof value === "boolean" || isObject(value) ? undefined : "true, false or an object",
};

const throttleFields: Fields = {
  k: numberRule(1, 100, true),
  windowMs: numberRule(100, 3_600_000),
};

const gateFields: Fields = { maxGateMs: numberRule(1, DAY_MS) };

const hedgeFields: Fields = {
  after: (value) =>
    isQuantile(value) ? undefined : afterRule(value) && "1 to 600000 ms, or p50 to p99.9",
  max: numberRule(1, 10),
  endpoints: listRule(textRule(/^https?:\/\/[^\s]{1,2000}$/, "an http(s) URL"), 0, 10),
};

const afterRule: Rule = numberRule(1, 600_000);

function isQuantile(value: unknown): boolean {
  return typeof value === "string" && /^p([5-9]\d)(\.\d)?$/.test(value);
}

/** Fields of the policy that people sometimes write next to it. */
const MISPLACED_FIELDS: Fields = Object.fromEntries(
  Object.keys(POLICY_FIELDS).map((name) => [name, () => `in policy: { ${name} }`]),
);

/** Checks the document's own fields, then each part with its own table. */
function checkParts(document: unknown): FieldProblem[] {
  const problems = checkFields(
    document,
    { ...MISPLACED_FIELDS, ...DESTINATION_FIELDS },
    "",
    "the destination",
  );
  if (!isObject(document)) return problems;
  return [
    ...problems,
    ...(isObject(document["policy"]) ? checkPolicy(document["policy"], "policy.") : []),
    ...checkPart(document, "retryBudget", budgetFields(document["retryBudget"]), checkBudget),
    ...checkPart(document, "breaker", breakerFields, checkBreaker),
    ...checkPart(document, "concurrency", concurrencyFields, checkConcurrency),
    ...checkPart(document, "rate", rateFields, checkRate),
    ...checkPart(document, "hedge", hedgeFields),
    ...checkPart(document, "retryAfterGate", gateFields),
  ];
}

type Part = Readonly<Record<string, unknown>>;

function checkPart(
  document: Part,
  name: string,
  fields: Fields,
  together: (part: Part) => FieldProblem[] = () => [],
): FieldProblem[] {
  const part = document[name];
  if (!isObject(part)) return [];
  const problems = checkFields(part, fields, `${name}.`);
  return problems.length > 0 ? problems : together(part);
}

const budgetFieldsByKind: ReadonlyMap<unknown, Fields> = new Map([
  ["TOKENS", tokenFields],
  ["GRPC", grpcFields],
]);

function budgetFields(part: unknown): Fields {
  return budgetFieldsByKind.get(Object(part).kind) ?? ratioFields;
}

/** A number of the part, which is checked already, or its default. */
function numberOf(part: Part, name: string, fallback: number): number {
  return (part[name] as number | undefined) ?? fallback;
}

function checkBudget(part: Part): FieldProblem[] {
  if (part["kind"] !== "TOKENS") return [];
  const max = numberOf(part, "maxTokens", TOKEN_BUDGET_DEFAULTS.maxTokens);
  const costs = ["costPerRetry", "costPerThrottle", "refillPerSuccess"] as const;
  return costs.flatMap((name) => {
    const value = numberOf(part, name, TOKEN_BUDGET_DEFAULTS[name]);
    const wanted = `at most retryBudget.maxTokens (${max})`;
    return value > max ? mustBeProblem(`retryBudget.${name}`, value, wanted) : [];
  });
}

function checkBreaker(part: Part): FieldProblem[] {
  const openMs = numberOf(part, "openMs", BREAKER_DEFAULTS.openMs);
  const maxOpenMs = numberOf(part, "maxOpenMs", Math.max(BREAKER_DEFAULTS.maxOpenMs, openMs));
  const problems: FieldProblem[] = [];
  if (maxOpenMs < openMs) {
    const wanted = `at least breaker.openMs (${openMs})`;
    problems.push(mustBeProblem("breaker.maxOpenMs", maxOpenMs, wanted));
  }
  if (part["slowRate"] !== undefined && part["slowCallMs"] === undefined) {
    const text = "breaker.slowRate must come with breaker.slowCallMs";
    problems.push(fieldProblem("breaker.slowRate", part["slowRate"], text));
  }
  return problems;
}

function checkConcurrency(part: Part): FieldProblem[] {
  const max = numberOf(part, "max", CONCURRENCY_DEFAULTS.max);
  const maxRetries = numberOf(part, "maxRetries", max);
  if (maxRetries <= max) return [];
  return [mustBeProblem("concurrency.maxRetries", maxRetries, `at most concurrency.max (${max})`)];
}

function checkRate(part: Part): FieldProblem[] {
  const { burst, perSecond, throttle } = part as {
    [name in "burst" | "perSecond" | "throttle"]?: unknown;
  };
  if (burst !== undefined && perSecond === undefined) {
    return [fieldProblem("rate.burst", burst, "rate.burst must come with rate.perSecond")];
  }
  return isObject(throttle) ? checkFields(throttle, throttleFields, "rate.throttle.") : [];
}
