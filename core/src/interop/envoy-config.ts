/**
 * Envoy config: reads and writes the retry policy of an Envoy route, and the retry settings of its hedging
 * and circuit breaking. Accepts a RouteAction or only its `retry_policy`, in snake_case or in the camelCase
 * of protocol buffers.
 */
import {
  ERROR_CLASSES,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
  statusRange,
} from "../decide/policy.ts";
import { quote, RedriveError } from "../documents/errors.ts";
import { formatSeconds } from "../documents/format.ts";
import { nearestName } from "../documents/nearest-name.ts";
import type { RetryBudgetDocument } from "../guards/destination.ts";
import { RATIO_BUDGET_DEFAULTS } from "../guards/retry-budget.ts";
import {
  addLostNote,
  clampWithNote,
  type DestinationParts,
  fieldOf,
  type Imported,
  imported,
  isSet,
  numberOf,
  type Part,
  readInteger,
  readList,
  readObject,
  readPositiveSeconds,
  readSeconds,
  readText,
  refuse,
} from "./config-reader.ts";

/** Envoy's own defaults, from its source and documentation. */
const ENVOY_DEFAULTS = {
  numRetries: 1,
  baseIntervalMs: 25,
  /** The maximum interval is this many times the base. */
  maxIntervals: 10,
  timeoutMs: 15_000,
  maxResetIntervalMs: 300_000,
} as const;

const YEAR_MS = 365 * 86_400_000;
const MAX_ATTEMPT_MS = 600_000;

/** Fields that choose hosts or read headers; a policy does neither. */
const LEFT_OUT = [
  "per_try_idle_timeout",
  "retry_priority",
  "retry_host_predicate",
  "retry_options_predicates",
  "host_selection_retry_max_attempts",
  "retriable_headers",
  "retriable_request_headers",
];

const CEILINGS =
  "Envoy's documentation gives the ceilings as base x (2^n - 1); its source draws below base x 2^(n-1), as Redrive does.";

/** Reads a RouteAction, or only a RetryPolicy. */
export function importEnvoy(config: unknown): Imported {
  const route = readObject(config, "the Envoy config");
  const nested = fieldOf(route, "retry_policy");
  const retry = isSet(nested) ? readObject(nested, "retry_policy") : route;
  const notes: string[] = [];
  for (const name of LEFT_OUT) if (isSet(fieldOf(retry, name))) notes.push(`${name} is left out.`);
  const { policy, hedge } = readTimes(route, retry, notes);
  const maxAttempts = readAttempts(retry, notes);
  if (maxAttempts > 2) notes.push(CEILINGS);
  const document = {
    maxAttempts,
    ...readBackoff(retry),
    ...policy,
    ...readRetried(retry, notes),
    ...readRateLimited(retry, notes),
  };
  return imported(document, { ...hedge, ...readCircuitBreakers(route, notes) }, notes);
}

/** Envoy counts retries, a policy counts calls. */
function readAttempts(retry: Part, notes: string[]): number {
  if (!isSet(fieldOf(retry, "retry_on"))) {
    notes.push("Without retry_on Envoy retries nothing.");
    return 1;
  }
  return clampWithNote(notes, "num_retries", readRetries(retry), [0, 999]) + 1;
}

function readRetries(retry: Part): number {
  const value = numberOf(fieldOf(retry, "num_retries"));
  return isSet(value) ? readInteger(value, "num_retries", 0) : ENVOY_DEFAULTS.numRetries;
}

type RetriedFields = Pick<
  PolicyDocument,
  "retryableStatusCodes" | "retryableErrors" | "retryableGrpcCodes"
>;

function readRetried(retry: Part, notes: string[]): RetriedFields {
  const retryOn = fieldOf(retry, "retry_on");
  const words = isSet(retryOn) ? readConditions(readText(retryOn, "retry_on")) : [];
  const { statuses, errors, codes } = retriedBy(words, notes);
  const listed = readStatuses(retry);
  const asked = words.includes("retriable-status-codes");
  if (!asked && listed.length > 0) {
    notes.push("retriable_status_codes has no effect unless retry_on has retriable-status-codes.");
  }
  const kept = listed.filter((status) => status >= 300 && status <= 599);
  if (asked && kept.length < listed.length) {
    notes.push("Only statuses from 300 to 599 can be retried; the others are left out.");
  }
  return {
    retryableStatusCodes: sorted([...statuses, ...(asked ? kept : [])]),
    retryableErrors: errors,
    retryableGrpcCodes: codes,
  };
}

function readStatuses(retry: Part): readonly number[] {
  const value = fieldOf(retry, "retriable_status_codes");
  if (!isSet(value)) return [];
  return readList(value, "retriable_status_codes").map((status, index) =>
    readInteger(status, `retriable_status_codes[${index}]`, 0),
  );
}

function readBackoff(retry: Part): PolicyDocument {
  const value = fieldOf(retry, "retry_back_off");
  const part = isSet(value) ? readObject(value, "retry_back_off") : { base_interval: "0.025s" };
  const base = fieldOf(part, "base_interval");
  const initialDelayMs = readPositiveSeconds(base, "retry_back_off.base_interval");
  const max = fieldOf(part, "max_interval");
  const maxDelayMs = isSet(max)
    ? readPositiveSeconds(max, "retry_back_off.max_interval")
    : initialDelayMs * ENVOY_DEFAULTS.maxIntervals;
  if (maxDelayMs < initialDelayMs) {
    refuse("retry_back_off.max_interval", "at least base_interval", max);
  }
  return { backoff: "EXPONENTIAL", initialDelayMs, multiplier: 2, maxDelayMs, jitterType: "FULL" };
}

interface Times {
  readonly policy: PolicyDocument;
  readonly hedge: Pick<DestinationParts, "hedge">;
}

/** The route's timeout limits the call. The per-try timeout limits an attempt, or starts a hedge. */
function readTimes(route: Part, retry: Part, notes: string[]): Times {
  const totalBudgetMs = readTimeout(route, notes);
  const wholeCallMs = Math.min(MAX_ATTEMPT_MS, Math.max(100, totalBudgetMs));
  const hedges = readHedges(route, notes);
  const value = fieldOf(retry, "per_try_timeout");
  const perTryMs = isSet(value) ? readSeconds(value, "per_try_timeout") : 0;
  if (!hedges || perTryMs === 0 || readRetries(retry) === 0) {
    const tryMs = perTryMs === 0 ? wholeCallMs : perTryMs;
    const range = [100, MAX_ATTEMPT_MS] as const;
    const attemptTimeoutMs = clampWithNote(notes, "per_try_timeout in ms", tryMs, range);
    return { policy: { totalBudgetMs, attemptTimeoutMs }, hedge: {} };
  }
  notes.push(
    "Envoy counts a hedge as a retry; here each attempt may have one, and it does not count.",
  );
  const after = clampWithNote(notes, "per_try_timeout in ms", perTryMs, [1, MAX_ATTEMPT_MS]);
  return {
    policy: { totalBudgetMs, attemptTimeoutMs: wholeCallMs },
    hedge: { hedge: { after, max: 1 } },
  };
}

function readTimeout(route: Part, notes: string[]): number {
  const value = fieldOf(route, "timeout");
  if (!isSet(value)) return ENVOY_DEFAULTS.timeoutMs;
  const timeoutMs = readSeconds(value, "timeout");
  if (timeoutMs > 0) return clampWithNote(notes, "timeout in ms", timeoutMs, [1, YEAR_MS]);
  notes.push("A timeout of 0 s means none in Envoy; a year, the maximum here, replaces it.");
  return YEAR_MS;
}

/** True if a try that times out continues while the next one starts. */
function readHedges(route: Part, notes: string[]): boolean {
  const value = fieldOf(route, "hedge_policy");
  if (!isSet(value)) return false;
  const hedge = readObject(value, "hedge_policy");
  for (const name of ["initial_requests", "additional_request_chance"]) {
    if (isSet(fieldOf(hedge, name))) notes.push(`${name} is not implemented by Envoy; left out.`);
  }
  const onTimeout = fieldOf(hedge, "hedge_on_per_try_timeout") ?? false;
  return typeof onTimeout === "boolean"
    ? onTimeout
    : refuse("hedge_policy.hedge_on_per_try_timeout", "true or false", onTimeout);
}

function readRateLimited(retry: Part, notes: string[]): PolicyDocument {
  const value = fieldOf(retry, "rate_limited_retry_back_off");
  if (!isSet(value)) return { respectRetryAfter: false };
  const part = readObject(value, "rate_limited_retry_back_off");
  const field = "rate_limited_retry_back_off.reset_headers";
  const headers = readList(fieldOf(part, "reset_headers"), field).map((header, index) =>
    readText(fieldOf(readObject(header, `${field}[${index}]`), "name"), `${field}[${index}].name`),
  );
  if (!headers.some((name) => name.toLowerCase() === "retry-after")) {
    notes.push(`${field} has no Retry-After, the only header that Redrive reads; left out.`);
    return { respectRetryAfter: false };
  }
  notes.push("Envoy ignores a hint beyond max_interval; Redrive then waits for max_interval.");
  const max = fieldOf(part, "max_interval");
  const maxMs = isSet(max)
    ? readPositiveSeconds(max, "rate_limited_retry_back_off.max_interval")
    : ENVOY_DEFAULTS.maxResetIntervalMs;
  return { maxRetryAfterMs: clampWithNote(notes, "max_interval in ms", maxMs, [0, YEAR_MS]) };
}

// Writes a policy and its guards as the retry part of an Envoy route. Notes report what Envoy cannot express.

interface EnvoyRetryPolicy {
  readonly retry_on: string;
  readonly num_retries: number;
  readonly per_try_timeout: string;
  readonly retriable_status_codes?: readonly number[];
  readonly retry_back_off: { readonly base_interval: string; readonly max_interval: string };
  readonly rate_limited_retry_back_off?: {
    readonly reset_headers: readonly { readonly name: string; readonly format: string }[];
    readonly max_interval: string;
  };
}

/** The retry part of a RouteAction, with the circuit breakers of its cluster. */
export interface EnvoyRoute {
  readonly timeout: string;
  readonly retry_policy: EnvoyRetryPolicy;
  readonly hedge_policy?: { readonly hedge_on_per_try_timeout: boolean };
  readonly circuit_breakers?: EnvoyCircuitBreakers;
}

interface EnvoyExport {
  readonly config: EnvoyRoute;
  /** Full sentences about what was changed or lost. */
  readonly notes: readonly string[];
}

const LOST_FIELDS: readonly (keyof PolicyDocument)[] = [
  "connectTimeoutMs",
  "minCallMs",
  "throttleDelayMs",
  "requireIdempotencyKey",
];

/** Writes a RouteAction; throws only for a bad policy. */
export function exportEnvoy(
  document: PolicyDocument,
  destination: DestinationParts = {},
): EnvoyExport {
  const policy = resolvePolicy(document);
  const notes: string[] = [];
  const kept = Object.keys(document).filter((name) => !LOST_FIELDS.includes(name as never));
  addLostNote(notes, "Envoy", document, kept);
  const parts = ["description", "idempotent", "retryBudget", "concurrency", "hedge"];
  addLostNote(notes, "Envoy", destination, parts);
  const hedgeMs = writeHedge(destination.hedge || undefined, notes);
  const config = {
    timeout: formatSeconds(policy.totalBudgetMs),
    retry_policy: writeRetry(policy, hedgeMs ?? policy.attemptTimeoutMs, notes),
    ...(hedgeMs === undefined ? {} : { hedge_policy: { hedge_on_per_try_timeout: true } }),
    ...writeCircuitBreakers(destination, notes),
  };
  return { config, notes };
}

function writeRetry(policy: Policy, perTryMs: number, notes: string[]): EnvoyRetryPolicy {
  const { conditions, statuses } = writeConditions(policy, notes);
  return {
    retry_on: conditions.join(","),
    num_retries: policy.maxAttempts - 1,
    per_try_timeout: formatSeconds(perTryMs),
    ...(statuses.length === 0 ? {} : { retriable_status_codes: statuses }),
    retry_back_off: writeBackoff(policy, notes),
    ...writeRateLimited(policy, notes),
  };
}

interface Conditions {
  readonly conditions: readonly string[];
  /** Statuses that no condition covers. */
  readonly statuses: readonly number[];
}

function writeConditions(policy: Policy, notes: string[]): Conditions {
  const { retryableStatusCodes, retryableErrors } = policy;
  const coversNoResponse = NO_RESPONSE.every((name) => retryableErrors.includes(name));
  const serverErrors = SERVER_ERRORS.every((status) => retryableStatusCodes.includes(status));
  const all = coversNoResponse && serverErrors;
  const statuses = retryableStatusCodes.filter((status) => !all || status < 500);
  const conditions = [
    ...(all ? ["5xx"] : writeErrors(policy, coversNoResponse, notes)),
    ...(statuses.length === 0 ? [] : ["retriable-status-codes"]),
    ...writeCodes(policy, notes),
  ];
  const lost = retryableErrors.filter((name) => name === "dns" || name === "tls");
  if (lost.length > 0) notes.push(`Envoy has no condition for ${lost.join(" and ")}; left out.`);
  return { conditions, statuses };
}

function writeErrors(
  policy: Policy,
  coversNoResponse: boolean,
  notes: string[],
): readonly string[] {
  const has = (name: "timeout" | "connect" | "reset" | "protocol") =>
    policy.retryableErrors.includes(name);
  if (coversNoResponse) return ["reset"];
  if (has("reset") || has("timeout")) {
    notes.push("Envoy's reset includes timeouts, failed connects and refused streams.");
    return ["reset"];
  }
  return [
    ...(has("connect") ? ["connect-failure"] : []),
    ...(has("protocol") ? ["refused-stream"] : []),
  ];
}

function writeCodes({ retryableGrpcCodes }: Policy, notes: string[]): readonly string[] {
  const lost = retryableGrpcCodes.filter((code) => conditionFor(code) === undefined);
  if (lost.length > 0) notes.push(`Envoy has no condition for ${lost.join(", ")}; left out.`);
  return retryableGrpcCodes.map(conditionFor).filter((word) => word !== undefined);
}

/** Envoy has one curve: it doubles from the base to the maximum, with full jitter. */
function writeBackoff(policy: Policy, notes: string[]): EnvoyRetryPolicy["retry_back_off"] {
  const [firstMs, maxMs] = ends(policy);
  const doubles = policy.backoff === "EXPONENTIAL" && policy.multiplier === 2;
  if (!doubles && firstMs !== maxMs) {
    notes.push("Envoy's backoff always doubles; the first wait and the maximum are kept.");
  }
  if (policy.jitterType !== "FULL")
    notes.push(`Envoy always uses FULL jitter, not ${policy.jitterType}.`);
  if (firstMs === 0) notes.push("Envoy has no backoff of 0; 1 ms is written instead.");
  return {
    base_interval: formatSeconds(Math.max(1, firstMs)),
    max_interval: formatSeconds(Math.max(1, maxMs)),
  };
}

/** The first and the maximum ceiling. */
function ends(policy: Policy): readonly [number, number] {
  if (policy.delaysMs !== undefined) {
    const maxMs = policy.delaysMs.reduce((longest, one) => Math.max(longest, one), 0);
    return [policy.delaysMs[0] ?? 0, maxMs];
  }
  const { initialDelayMs, maxDelayMs, backoff } = policy;
  return [initialDelayMs, backoff === "FIXED" ? initialDelayMs : maxDelayMs];
}

function writeRateLimited(
  { respectRetryAfter, maxRetryAfterMs }: Policy,
  notes: string[],
): Pick<EnvoyRetryPolicy, "rate_limited_retry_back_off"> {
  if (!respectRetryAfter || maxRetryAfterMs === 0) return {};
  notes.push(
    "Envoy ignores a Retry-After beyond max_interval; Redrive then waits for max_interval.",
  );
  return {
    rate_limited_retry_back_off: {
      reset_headers: [{ name: "Retry-After", format: "SECONDS" }],
      max_interval: formatSeconds(maxRetryAfterMs),
    },
  };
}

type Hedge = Exclude<DestinationParts["hedge"], false | undefined>;

/** When Envoy sends its hedge, in ms; undefined if there is none. */
function writeHedge(hedge: Hedge | undefined, notes: string[]): number | undefined {
  if (hedge === undefined) return undefined;
  const { after = "p95" } = hedge;
  if (typeof after === "string") {
    notes.push(`Envoy has no hedge at a quantile; the one at ${after} is left out.`);
    return undefined;
  }
  notes.push(
    "Envoy hedges when a try times out and counts that as a retry: num_retries includes both.",
  );
  return after;
}

// The words of `retry_on`, each with the failures that it means in a policy, to read and to write.

/** What a condition of Envoy retries. */
interface Condition {
  readonly statuses?: readonly number[];
  readonly errors?: readonly ErrorClass[];
  readonly code?: GrpcCode;
  /** A full sentence, if the condition means more than a policy can express. */
  readonly note?: string;
}

/** What Envoy counts as no response: reset, refused, timed out, or never connected. */
const NO_RESPONSE: readonly ErrorClass[] = ["timeout", "connect", "reset", "protocol"];

const SERVER_ERRORS: readonly number[] = statusRange(500, 599);

const CONDITIONS: Readonly<Record<string, Condition>> = {
  "5xx": { statuses: SERVER_ERRORS, errors: NO_RESPONSE },
  "gateway-error": { statuses: [502, 503, 504], errors: NO_RESPONSE },
  reset: { errors: NO_RESPONSE },
  "reset-before-request": {
    errors: ["connect"],
    note: "reset-before-request became connect: Redrive repeats calls that were certainly not sent.",
  },
  "connect-failure": { errors: ["connect"] },
  "refused-stream": { errors: ["protocol"] },
  "retriable-4xx": { statuses: [409] },
  "retriable-status-codes": {},
  "retriable-headers": {
    note: "retriable-headers reads headers, which a policy does not; left out.",
  },
  "envoy-ratelimited": { note: "envoy-ratelimited is Envoy's own header; left out." },
  "http3-post-connect-failure": { note: "http3-post-connect-failure is about HTTP/3; left out." },
  cancelled: {
    code: "CANCELLED",
    note: "Redrive never repeats CANCELLED, because the caller asked for it.",
  },
  "deadline-exceeded": { code: "DEADLINE_EXCEEDED" },
  internal: { code: "INTERNAL" },
  "resource-exhausted": { code: "RESOURCE_EXHAUSTED" },
  unavailable: { code: "UNAVAILABLE" },
};

/** The conditions in a comma-separated text, in its order. */
function readConditions(retryOn: string): readonly string[] {
  const words = retryOn.split(",").map((word) => word.trim());
  return words.filter((word) => word !== "").map(checkCondition);
}

function checkCondition(word: string): string {
  if (Object.hasOwn(CONDITIONS, word)) return word;
  const near = nearestName(word, Object.keys(CONDITIONS));
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  const text = `retry_on must name conditions of Envoy, got ${quote(word)}${hint}`;
  throw new RedriveError("INVALID_IMPORT", text);
}

/** The combined result of several conditions; each status, class and code once, in order. */
interface Retried {
  readonly statuses: readonly number[];
  readonly errors: readonly ErrorClass[];
  readonly codes: readonly GrpcCode[];
}

function retriedBy(words: readonly string[], notes: string[]): Retried {
  const conditions = words.map((word) => CONDITIONS[word] ?? {});
  for (const { note } of conditions) if (note !== undefined) notes.push(note);
  const statuses = conditions.flatMap((condition) => condition.statuses ?? []);
  const errors = conditions.flatMap((condition) => condition.errors ?? []);
  const codes = conditions.map((condition) => condition.code);
  return {
    statuses: sorted(statuses),
    errors: ERROR_CLASSES.filter((name) => errors.includes(name)),
    codes: GRPC_CODES.filter((code) => codes.includes(code)),
  };
}

/** Each number once, ascending. */
function sorted(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].sort((one, other) => one - other);
}

/** Envoy's word for a gRPC code; undefined if it has none. */
function conditionFor(code: GrpcCode): string | undefined {
  return Object.keys(CONDITIONS).find((word) => CONDITIONS[word]?.code === code);
}

// The retry limits in the circuit breakers of an Envoy cluster, as parts of a destination: a number of
// concurrent retries (`max_retries`), or a share of the requests in flight (`retry_budget`).

/** Envoy's own defaults. */
const ENVOY_GUARD_DEFAULTS = {
  maxRequests: 1024,
  maxRetries: 3,
  budgetPercent: 20,
  minRetryConcurrency: 3,
} as const;

interface EnvoyThreshold {
  readonly priority: "DEFAULT";
  readonly max_requests?: number;
  readonly max_retries?: number;
  readonly retry_budget?: {
    readonly budget_percent: { readonly value: number };
    readonly min_retry_concurrency: number;
  };
}

interface EnvoyCircuitBreakers {
  readonly thresholds: readonly EnvoyThreshold[];
}

const BUDGETS_DIFFER =
  "Envoy's retry budget is a share of the requests in flight, with a minimum of concurrent retries; Redrive's is a share of first attempts over 10 s, with a minimum per second.";

function readCircuitBreakers(route: Part, notes: string[]): DestinationParts {
  const value = fieldOf(route, "circuit_breakers");
  if (!isSet(value)) {
    notes.push(
      "Envoy allows 3 concurrent retries per cluster unless its circuit_breakers say otherwise; without them Redrive's own retry budget applies.",
    );
    return {};
  }
  const list = fieldOf(readObject(value, "circuit_breakers"), "thresholds") ?? [];
  const thresholds = readList(list, "circuit_breakers.thresholds").map((one, index) =>
    readObject(one, `circuit_breakers.thresholds[${index}]`),
  );
  const usual =
    thresholds.find((one) => (fieldOf(one, "priority") ?? "DEFAULT") === "DEFAULT") ?? {};
  const budget = fieldOf(usual, "retry_budget");
  return isSet(budget)
    ? readBudget(readObject(budget, "retry_budget"), notes)
    : readMaxRetries(usual, notes);
}

function readMaxRetries(threshold: Part, notes: string[]): DestinationParts {
  const { maxRequests, maxRetries } = ENVOY_GUARD_DEFAULTS;
  const requests = readCount(threshold, "max_requests", maxRequests);
  const retries = readCount(threshold, "max_retries", maxRetries);
  const max = clampWithNote(notes, "max_requests", requests, [1, 100_000]);
  return {
    retryBudget: false,
    concurrency: {
      algorithm: "FIXED",
      max,
      maxRetries: clampWithNote(notes, "max_retries", retries, [0, max]),
    },
  };
}

function readBudget(budget: Part, notes: string[]): DestinationParts {
  const percent = numberOf(fieldOf(budget, "budget_percent")) ?? ENVOY_GUARD_DEFAULTS.budgetPercent;
  if (typeof percent !== "number" || !(percent >= 0 && percent <= 100)) {
    return refuse("retry_budget.budget_percent", "a number from 0 to 100", percent);
  }
  const floor = readCount(
    budget,
    "min_retry_concurrency",
    ENVOY_GUARD_DEFAULTS.minRetryConcurrency,
  );
  notes.push(BUDGETS_DIFFER);
  return {
    retryBudget: {
      kind: "RATIO",
      ratio: percent / 100,
      minPerSecond: clampWithNote(notes, "min_retry_concurrency", floor, [0, 1000]),
    },
  };
}

function readCount(part: Part, name: string, fallback: number): number {
  const value = numberOf(fieldOf(part, name));
  return isSet(value) ? readInteger(value, name, 0) : fallback;
}

/** Thresholds for the guards that limit retries; none if there are no such guards. */
function writeCircuitBreakers(
  { retryBudget, concurrency }: DestinationParts,
  notes: string[],
): { readonly circuit_breakers?: EnvoyCircuitBreakers } {
  const threshold = {
    ...(concurrency ? writeMaxRetries(concurrency, notes) : {}),
    ...(retryBudget ? writeBudget(retryBudget, notes) : {}),
  };
  if (Object.keys(threshold).length === 0) return {};
  return { circuit_breakers: { thresholds: [{ priority: "DEFAULT", ...threshold }] } };
}

type Concurrency = Exclude<DestinationParts["concurrency"], false | undefined>;

function writeMaxRetries(concurrency: Concurrency, notes: string[]): Partial<EnvoyThreshold> {
  const { algorithm = "AIMD", max = 64, maxRetries = max } = concurrency;
  if (algorithm !== "FIXED") notes.push(`Envoy's thresholds are fixed; ${algorithm} is left out.`);
  return { max_requests: max, max_retries: maxRetries };
}

function writeBudget(budget: RetryBudgetDocument, notes: string[]): Partial<EnvoyThreshold> {
  if (budget.kind === "TOKENS" || budget.kind === "GRPC") {
    notes.push(`Envoy has no budget of ${budget.kind}; left out.`);
    return {};
  }
  notes.push(BUDGETS_DIFFER);
  const { ratio = RATIO_BUDGET_DEFAULTS.ratio, minPerSecond = RATIO_BUDGET_DEFAULTS.minPerSecond } =
    budget;
  return {
    retry_budget: {
      // Rounded to a millionth, so 0.07 is written as 7 and not as 7.000000000000001.
      budget_percent: { value: Math.min(100, Math.floor(ratio * 1e8 + 0.5) / 1e6) },
      min_retry_concurrency: Math.floor(minPerSecond),
    },
  };
}
