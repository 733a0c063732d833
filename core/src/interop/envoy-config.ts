/**
 * Envoy config: reads the retry policy of an Envoy route, and the retry settings of its hedging and
 * circuit breaking. Accepts a RouteAction or only its `retry_policy`, in snake_case or in the camelCase
 * of protocol buffers. `envoy-export.ts` writes it.
 */

import type { PolicyDocument } from "../policy/policy.ts";
import {
  clampWithNote,
  type DestinationParts,
  type Imported,
  imported,
  isSet,
  type Part,
  readInteger,
  readList,
  readObject,
  readPositiveSeconds,
  readSeconds,
  readText,
  refuse,
} from "./config-reader.ts";
import { readConditions, retriedBy, sorted } from "./envoy-conditions.ts";
import { readCircuitBreakers } from "./envoy-guards.ts";
import { fieldOf, numberOf } from "./proto-json.ts";

/** Envoy's own defaults, from its source and documentation. */
export const ENVOY_DEFAULTS = {
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
