/**
 * Policy: the document that says how a call is retried. The same JSON is an option of the library, a
 * row of the service and an input of the simulator. Only this file checks and completes it.
 */
import {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type FieldProblem,
  type Fields,
  listRule,
  mustBeProblem,
  numberRule,
  type Rule,
  textRule,
} from "../documents/document.ts";

export type BackoffKind = "EXPONENTIAL" | "LINEAR" | "FIXED";
export type JitterType = "FULL" | "EQUAL" | "DECORRELATED" | "PROPORTIONAL" | "NONE";

/** A policy as people write it. Every field is optional. */
export interface PolicyDocument {
  /** Name; required in the service. `[A-Za-z0-9._-]`, 1 to 64 characters. */
  readonly policyId?: string | undefined;
  /** Why these numbers, and for which operations. At most 500 characters. */
  readonly description?: string | undefined;
  /** Total number of calls, including the first. 1 to 1000. Default: 5. */
  readonly maxAttempts?: number | undefined;
  /** How the ceiling of the wait grows. Default: EXPONENTIAL. */
  readonly backoff?: BackoffKind | undefined;
  /** Ceiling of the wait after the first failure. 0 to 86 400 000 ms. Default: 100. */
  readonly initialDelayMs?: number | undefined;
  /** Growth factor of EXPONENTIAL. 1 to 10. Default: 2. */
  readonly multiplier?: number | undefined;
  /** Maximum of every ceiling. `initialDelayMs` to 30 days. Default: 30 000, or the initial delay. */
  readonly maxDelayMs?: number | undefined;
  /** How the random wait is picked. DECORRELATED requires EXPONENTIAL. Default: FULL. */
  readonly jitterType?: JitterType | undefined;
  /** For PROPORTIONAL: the wait is uniform in ceiling x (1 - r .. 1 + r). 0 to 1. Default: 0.2. */
  readonly jitterRatio?: number | undefined;
  /** Explicit ceilings instead of a curve; `maxAttempts` is then entries + 1. 1 to 999 entries. */
  readonly delaysMs?: readonly number[] | undefined;
  /** All attempts and waits together. 1 ms to 365 days. Default: 30 000. */
  readonly totalBudgetMs?: number | undefined;
  /** One attempt, from start to end. 100 to 600 000 ms. Default: 10 000. */
  readonly attemptTimeoutMs?: number | undefined;
  /** Connecting, within the attempt. 100 to 60 000 ms. Default: 3000, or the attempt's if shorter. */
  readonly connectTimeoutMs?: number | undefined;
  /** Minimum duration of a call that the budget check assumes. 0 to 600 000 ms. Default: 1. */
  readonly minCallMs?: number | undefined;
  /** HTTP statuses that are retried. 300 to 599. Default: 408 425 429 500 502-504 520-524 529. */
  readonly retryableStatusCodes?: readonly number[] | undefined;
  /** gRPC codes that are retried. Default: UNAVAILABLE RESOURCE_EXHAUSTED. */
  readonly retryableGrpcCodes?: readonly GrpcCode[] | undefined;
  /** Classes of errors that are retried. Default: all but `tls`. */
  readonly retryableErrors?: readonly ErrorClass[] | undefined;
  /** First ceiling after a throttling response. `initialDelayMs` to `maxDelayMs`. Default: the initial delay. */
  readonly throttleDelayMs?: number | undefined;
  /** Refuse a call or task that has no idempotency key. Default: false. */
  readonly requireIdempotencyKey?: boolean | undefined;
  /** Wait as long as the server asks. Default: true. */
  readonly respectRetryAfter?: boolean | undefined;
  /** Longer hints are clamped to this. 0 to 365 days. Default: 24 h. */
  readonly maxRetryAfterMs?: number | undefined;
}

type Named = "policyId" | "description";
type CurveField = "backoff" | "initialDelayMs" | "multiplier" | "maxDelayMs" | "throttleDelayMs";

/** The fields of every completed policy, with a curve or a list of waits. */
type CommonPolicy = Pick<PolicyDocument, Named> &
  Completed<Omit<PolicyDocument, Named | CurveField | "delaysMs">>;

/** A document without fields that are undefined. */
type GivenFields = {
  readonly [field in keyof PolicyDocument]?: NonNullable<PolicyDocument[field]>;
};

type Completed<Document> = { readonly [field in keyof Document]-?: NonNullable<Document[field]> };

export type CurvePolicy = CommonPolicy &
  Completed<Pick<PolicyDocument, CurveField>> & { readonly delaysMs?: undefined };

export type ListPolicy = CommonPolicy &
  Completed<Pick<PolicyDocument, "delaysMs">> & { readonly [field in CurveField]?: undefined };

/** A policy with all defaults filled in; also a legal document. Only `resolvePolicy` makes it. */
export type Policy = CurvePolicy | ListPolicy;

/** Classes of failure below HTTP. */
export type ErrorClass = "timeout" | "connect" | "reset" | "dns" | "tls" | "protocol";

export const ERROR_CLASSES: readonly ErrorClass[] = [
  "timeout",
  "connect",
  "reset",
  "dns",
  "tls",
  "protocol",
];

/** The gRPC codes, at the index of their number. */
export const GRPC_CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

export type GrpcCode = (typeof GRPC_CODES)[number];

const DAY_MS = 86_400_000;
const MAX_DELAY_MS = 30 * DAY_MS;
const MAX_BUDGET_MS = 365 * DAY_MS;

/** One rule per field. `checkTogether` has the rules that involve several fields. */
export const POLICY_FIELDS: Fields & Readonly<Record<keyof PolicyDocument, Rule>> = {
  policyId: textRule(/^[\w.-]{1,64}$/, "1 to 64 characters of A-Z a-z 0-9 . _ -"),
  description: textRule(/^.{0,500}$/s, "at most 500 characters"),
  maxAttempts: numberRule(1, 1000),
  backoff: choiceRule("EXPONENTIAL", "LINEAR", "FIXED"),
  initialDelayMs: numberRule(0, DAY_MS),
  multiplier: numberRule(1, 10, true),
  maxDelayMs: numberRule(0, MAX_DELAY_MS),
  jitterType: choiceRule("FULL", "EQUAL", "DECORRELATED", "PROPORTIONAL", "NONE"),
  jitterRatio: numberRule(0, 1, true),
  delaysMs: listRule(numberRule(0, MAX_DELAY_MS), 1, 999),
  totalBudgetMs: numberRule(1, MAX_BUDGET_MS),
  attemptTimeoutMs: numberRule(100, 600_000),
  connectTimeoutMs: numberRule(100, 60_000),
  minCallMs: numberRule(0, 600_000),
  retryableStatusCodes: listRule(numberRule(300, 599), 0, 300),
  retryableGrpcCodes: listRule(choiceRule(...GRPC_CODES), 0, 17),
  retryableErrors: listRule(choiceRule(...ERROR_CLASSES), 0, 6),
  throttleDelayMs: numberRule(0, MAX_DELAY_MS),
  requireIdempotencyKey: booleanRule,
  respectRetryAfter: booleanRule,
  maxRetryAfterMs: numberRule(0, MAX_BUDGET_MS),
};

/** All problems of a policy document. If the list is empty, `resolvePolicy` accepts the document. */
export function checkPolicy(document: unknown, prefix = ""): readonly FieldProblem[] {
  return examine(document, prefix)[0];
}

/** Checks a document and fills in its defaults; throws `INVALID_POLICY` with all problems. */
export function resolvePolicy(document: PolicyDocument | Policy = {}): Policy {
  const [problems, policy] = examine(document, "");
  if (problems.length > 0) throw new DocumentError("INVALID_POLICY", problems);
  return policy as Policy;
}

/** The problems and, if every field is good by itself, the completed policy. */
function examine(
  document: unknown,
  prefix: string,
): readonly [problems: readonly FieldProblem[], policy?: Policy] {
  const problems = checkFields(document, POLICY_FIELDS, prefix, "the policy");
  if (problems.length > 0) return [problems];
  const policy = complete(document as PolicyDocument);
  return [checkTogether(policy, document as PolicyDocument, prefix), policy];
}

const DEFAULTS = {
  maxAttempts: 5,
  jitterType: "FULL",
  jitterRatio: 0.2,
  totalBudgetMs: 30_000,
  attemptTimeoutMs: 10_000,
  minCallMs: 1,
  // 520 to 524: a proxy (Cloudflare) got no valid response. 529: overloaded (Anthropic, Shopify).
  retryableStatusCodes: [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529],
  retryableGrpcCodes: ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
  retryableErrors: ERROR_CLASSES.filter((name) => name !== "tls"),
  requireIdempotencyKey: false,
  respectRetryAfter: true,
  maxRetryAfterMs: DAY_MS,
} as const satisfies PolicyDocument;

/** Defaults: `maxDelayMs` unless the first wait is longer, and `connectTimeoutMs` unless the attempt is shorter. */
const DEFAULT_MAX_DELAY_MS = 30_000;
const DEFAULT_CONNECT_TIMEOUT_MS = 3000;

/**
 * Only the fields of a curve or of a list: V8 is ten times slower with more fields than it stores inline. Lists
 * are copied, because a program may change the one that it has passed.
 */
function complete(document: PolicyDocument): Policy {
  const given = Object.entries(document)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, Array.isArray(value) ? [...value] : value]);
  const {
    delaysMs,
    backoff = "EXPONENTIAL",
    initialDelayMs = 100,
    multiplier = 2,
    maxDelayMs = Math.max(DEFAULT_MAX_DELAY_MS, initialDelayMs),
    throttleDelayMs = initialDelayMs,
    ...others
  }: GivenFields = Object.fromEntries(given);
  const completed = { ...DEFAULTS, ...others };
  const { connectTimeoutMs = Math.min(DEFAULT_CONNECT_TIMEOUT_MS, completed.attemptTimeoutMs) } =
    completed;
  const common = { ...completed, connectTimeoutMs };
  return delaysMs
    ? { ...common, maxAttempts: delaysMs.length + 1, delaysMs }
    : { ...common, backoff, initialDelayMs, multiplier, maxDelayMs, throttleDelayMs };
}

/** Checks the rules that involve several fields. Each field is already known to be good by itself. */
function checkTogether(policy: Policy, document: PolicyDocument, prefix: string): FieldProblem[] {
  const { delaysMs, jitterType, connectTimeoutMs, attemptTimeoutMs, minCallMs } = policy;
  const problems: FieldProblem[] = [];
  const refuse = (field: keyof PolicyDocument, isBad: boolean, wanted: string) => {
    const name = prefix + field;
    const value = document[field] ?? policy[field];
    if (isBad) problems.push(mustBeProblem(name, value, wanted));
  };
  const isDecorrelated = jitterType === "DECORRELATED";
  if (delaysMs) {
    const { maxAttempts } = policy;
    // The fields of a curve are the only ones that `complete` leaves out.
    for (const field of Object.keys(document) as (keyof PolicyDocument)[]) {
      const isLeftOut = document[field] !== undefined && !(field in policy);
      refuse(field, isLeftOut, "left out when delaysMs is given");
    }
    const isOther = (document.maxAttempts ?? maxAttempts) !== maxAttempts;
    refuse("maxAttempts", isOther, `${maxAttempts} (entries of delaysMs + 1) or left out`);
    refuse("jitterType", isDecorrelated, "another when delaysMs is given");
  } else checkCurve(policy, isDecorrelated, refuse);
  const isLate = connectTimeoutMs > attemptTimeoutMs;
  refuse("connectTimeoutMs", isLate, `at most attemptTimeoutMs (${attemptTimeoutMs})`);
  const firstMs = delaysMs?.[0] ?? policy.initialDelayMs ?? 0;
  const isTight = policy.maxAttempts > 1 && firstMs + minCallMs > policy.totalBudgetMs;
  refuse("totalBudgetMs", isTight, `at least the first wait and call (${firstMs} + ${minCallMs})`);
  return problems;
}

function checkCurve(
  { initialDelayMs, maxDelayMs, throttleDelayMs, backoff }: CurvePolicy,
  isDecorrelated: boolean,
  refuse: (field: keyof PolicyDocument, isBad: boolean, wanted: string) => void,
): void {
  const isAbove = initialDelayMs > maxDelayMs;
  const isOutside = throttleDelayMs < initialDelayMs || throttleDelayMs > maxDelayMs;
  const from = `initialDelayMs (${initialDelayMs})`;
  refuse("maxDelayMs", isAbove, `at least ${from}`);
  refuse("throttleDelayMs", !isAbove && isOutside, `from ${from} to maxDelayMs (${maxDelayMs})`);
  const isOdd = isDecorrelated && backoff !== "EXPONENTIAL";
  refuse("backoff", isOdd, "EXPONENTIAL with jitterType DECORRELATED");
}

/** The same policy without retries, for a layer that yields to an outer one. */
export function singleAttempt(policy: Policy): Policy {
  return { ...policy, maxAttempts: 1 };
}

/** Every status from `first` to `last`, including both. Other systems say "5xx" where a policy lists each status. */
export function statusRange(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}
