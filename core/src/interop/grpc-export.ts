/**
 * gRPC export: writes a policy and its guards as a gRPC service config. Notes report what gRPC cannot
 * express. `grpc-config.ts` is the reverse.
 */
import type { RetryBudgetDocument } from "../guards/destination.ts";
import type { GrpcCode } from "../policy/error-classes.ts";
import {
  type CurvePolicy,
  type ListPolicy,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
} from "../policy/policy.ts";
import { formatSeconds } from "../time/duration.ts";
import { addLostNote, type DestinationParts } from "./config-reader.ts";
import { GRPC_JITTER_RATIO, GRPC_MAX_ATTEMPTS, type GrpcTarget } from "./grpc-config.ts";

export interface GrpcRetryPolicy {
  readonly maxAttempts: number;
  readonly initialBackoff: string;
  readonly maxBackoff: string;
  readonly backoffMultiplier: number;
  readonly retryableStatusCodes: readonly GrpcCode[];
}

export interface GrpcHedgingPolicy {
  readonly maxAttempts: number;
  readonly hedgingDelay: string;
  readonly nonFatalStatusCodes: readonly GrpcCode[];
}

export interface GrpcMethodConfig {
  readonly name: readonly GrpcTarget[];
  readonly timeout: string;
  readonly retryPolicy?: GrpcRetryPolicy;
  readonly hedgingPolicy?: GrpcHedgingPolicy;
}

export interface GrpcServiceConfig {
  readonly methodConfig: readonly GrpcMethodConfig[];
  readonly retryThrottling?: { readonly maxTokens: number; readonly tokenRatio: number };
}

export interface GrpcExport {
  readonly config: GrpcServiceConfig;
  /** Full sentences about what was changed or lost. */
  readonly notes: readonly string[];
}

const KEPT_FIELDS: readonly (keyof PolicyDocument)[] = [
  "policyId",
  "description",
  "maxAttempts",
  "backoff",
  "initialDelayMs",
  "multiplier",
  "maxDelayMs",
  "jitterType",
  "jitterRatio",
  "delaysMs",
  "totalBudgetMs",
  "retryableGrpcCodes",
];

/** Writes a service config with one methodConfig for `target`; throws only for a bad policy. */
export function exportGrpc(
  document: PolicyDocument,
  destination: DestinationParts = {},
  target: GrpcTarget = {},
): GrpcExport {
  const policy = resolvePolicy(document);
  const notes: string[] = [];
  addLostNote(notes, "gRPC", document, KEPT_FIELDS);
  addLostNote(notes, "gRPC", destination, ["description", "retryBudget", "hedge"]);
  const method = {
    name: [target],
    timeout: formatSeconds(policy.totalBudgetMs),
    ...writePolicy(policy, destination.hedge || undefined, notes),
  };
  const throttling = writeThrottling(destination.retryBudget || undefined, notes);
  return { config: { methodConfig: [method], ...throttling }, notes };
}

type Hedge = Exclude<DestinationParts["hedge"], false | undefined>;

/** Either retries or hedges: gRPC refuses a method that has both. */
function writePolicy(
  policy: Policy,
  hedge: Hedge | undefined,
  notes: string[],
): Pick<GrpcMethodConfig, "retryPolicy" | "hedgingPolicy"> {
  if (policy.maxAttempts === 1)
    return hedge ? { hedgingPolicy: writeHedging(policy, hedge, notes) } : {};
  if (hedge !== undefined)
    notes.push("gRPC has retries or hedges, not both; the hedge is left out.");
  if (policy.retryableGrpcCodes.length === 0) {
    notes.push("gRPC has no retryPolicy without codes, and retryableGrpcCodes is empty; left out.");
    return {};
  }
  return { retryPolicy: writeRetry(policy, notes) };
}

function writeRetry(policy: Policy, notes: string[]): GrpcRetryPolicy {
  const curve =
    policy.delaysMs === undefined ? writeCurve(policy, notes) : writeList(policy, notes);
  const { jitterType, jitterRatio } = policy;
  if (jitterType !== "PROPORTIONAL" || jitterRatio !== GRPC_JITTER_RATIO) {
    notes.push(`gRPC always draws from 0.8 to 1.2 times the backoff, not ${jitterType}.`);
  }
  return {
    maxAttempts: writeAttempts(policy.maxAttempts, notes),
    ...curve,
    retryableStatusCodes: policy.retryableGrpcCodes,
  };
}

type Curve = Pick<GrpcRetryPolicy, "initialBackoff" | "maxBackoff" | "backoffMultiplier">;

function writeCurve(policy: CurvePolicy, notes: string[]): Curve {
  const { backoff, initialDelayMs, maxDelayMs, multiplier } = policy;
  if (backoff === "EXPONENTIAL") return curve(initialDelayMs, maxDelayMs, multiplier, notes);
  if (backoff === "FIXED") return curve(initialDelayMs, initialDelayMs, 1, notes);
  notes.push("gRPC has no LINEAR backoff; a doubling one is written instead.");
  return curve(initialDelayMs, maxDelayMs, 2, notes);
}

function writeList({ delaysMs }: ListPolicy, notes: string[]): Curve {
  const firstMs = delaysMs[0] ?? 0;
  const maxMs = delaysMs.reduce((max, one) => Math.max(max, one), 0);
  if (maxMs === firstMs && delaysMs.every((one) => one === firstMs)) {
    return curve(firstMs, firstMs, 1, notes);
  }
  notes.push(
    "gRPC has no list of delays; a curve that doubles from the first to the maximum is written.",
  );
  return curve(firstMs, maxMs, 2, notes);
}

function curve(firstMs: number, maxMs: number, multiplier: number, notes: string[]): Curve {
  if (firstMs === 0) notes.push("gRPC has no backoff of 0; 1 ms is written instead.");
  return {
    initialBackoff: formatSeconds(Math.max(1, firstMs)),
    maxBackoff: formatSeconds(Math.max(1, maxMs)),
    backoffMultiplier: multiplier,
  };
}

function writeAttempts(attempts: number, notes: string[]): number {
  if (attempts > GRPC_MAX_ATTEMPTS) {
    notes.push(`maxAttempts ${attempts} became ${GRPC_MAX_ATTEMPTS}: no gRPC client makes more.`);
  }
  return Math.min(attempts, GRPC_MAX_ATTEMPTS);
}

function writeHedging(policy: Policy, hedge: Hedge, notes: string[]): GrpcHedgingPolicy {
  const { after = "p95", max = 1 } = hedge;
  if (typeof after === "string") {
    notes.push(`gRPC has no hedge at a quantile; 1 s is written instead of ${after}.`);
  }
  if (hedge.endpoints !== undefined) notes.push("gRPC's balancer picks the backend of a hedge.");
  return {
    maxAttempts: writeAttempts(max + 1, notes),
    hedgingDelay: formatSeconds(typeof after === "string" ? 1000 : after),
    nonFatalStatusCodes: policy.retryableGrpcCodes,
  };
}

function writeThrottling(
  budget: RetryBudgetDocument | undefined,
  notes: string[],
): Pick<GrpcServiceConfig, "retryThrottling"> {
  if (budget === undefined) return {};
  if (budget.kind !== "GRPC") {
    notes.push(
      `gRPC throttles with its own tokens; the ${budget.kind ?? "RATIO"} budget is left out.`,
    );
    return {};
  }
  const { maxTokens = 10, tokenRatio = 0.1 } = budget;
  return { retryThrottling: { maxTokens, tokenRatio } };
}
