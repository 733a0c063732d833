/**
 * Envoy guards: the retry limits in the circuit breakers of an Envoy cluster, as parts of a destination:
 * a number of concurrent retries (`max_retries`), or a share of the requests in flight
 * (`retry_budget`).
 */
import type { RetryBudgetDocument } from "../guards/destination.ts";
import { RATIO_BUDGET_DEFAULTS } from "../guards/ratio-budget.ts";
import {
  clampWithNote,
  type DestinationParts,
  isSet,
  type Part,
  readInteger,
  readList,
  readObject,
  refuse,
} from "./config-reader.ts";
import { fieldOf, numberOf } from "./proto-json.ts";

/** Envoy's own defaults. */
export const ENVOY_GUARD_DEFAULTS = {
  maxRequests: 1024,
  maxRetries: 3,
  budgetPercent: 20,
  minRetryConcurrency: 3,
} as const;

export interface EnvoyThreshold {
  readonly priority: "DEFAULT";
  readonly max_requests?: number;
  readonly max_retries?: number;
  readonly retry_budget?: {
    readonly budget_percent: { readonly value: number };
    readonly min_retry_concurrency: number;
  };
}

export interface EnvoyCircuitBreakers {
  readonly thresholds: readonly EnvoyThreshold[];
}

const BUDGETS_DIFFER =
  "Envoy's retry budget is a share of the requests in flight, with a minimum of concurrent retries; Redrive's is a share of first attempts over 10 s, with a minimum per second.";

export function readCircuitBreakers(route: Part, notes: string[]): DestinationParts {
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
export function writeCircuitBreakers(
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
  const { ratio, minPerSecond } = { ...RATIO_BUDGET_DEFAULTS, ...budget };
  return {
    retry_budget: {
      // Rounded to a millionth, so 0.07 is written as 7 and not as 7.000000000000001.
      budget_percent: { value: Math.min(100, Math.floor(ratio * 1e8 + 0.5) / 1e6) },
      min_retry_concurrency: Math.floor(minPerSecond),
    },
  };
}
