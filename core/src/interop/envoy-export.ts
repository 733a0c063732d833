/**
 * Envoy export: writes a policy and its guards as the retry part of an Envoy route. Notes report what
 * Envoy cannot express. `envoy-config.ts` is the reverse.
 */

import { type Policy, type PolicyDocument, resolvePolicy } from "../policy/policy.ts";
import { formatSeconds } from "../time/duration.ts";
import { addLostNote, type DestinationParts } from "./config-reader.ts";
import { conditionFor, NO_RESPONSE, SERVER_ERRORS } from "./envoy-conditions.ts";
import { type EnvoyCircuitBreakers, writeCircuitBreakers } from "./envoy-guards.ts";

export interface EnvoyRetryPolicy {
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

export interface EnvoyExport {
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
