/** Field words: a field of the policy or a guard as the controls of the other views call it. */
import { isObject } from "@redrive/core";
import { formatDuration, formatInteger, percent } from "@redrive/simulator/words";

interface FieldDescription {
  readonly label: string;
  readonly text: string;
}

const LABELS: Readonly<Record<string, string>> = {
  maxAttempts: "Attempts",
  jitterType: "Jitter",
  initialDelayMs: "First wait",
  maxDelayMs: "Longest wait",
  totalBudgetMs: "In all",
  attemptTimeoutMs: "One attempt",
  connectTimeoutMs: "Connecting",
  requireIdempotencyKey: "Idempotency key",
  retryableStatusCodes: "Retried statuses",
  retryableGrpcCodes: "Retried gRPC codes",
  retryableErrors: "Retried errors",
  retryBudget: "Retry budget",
  breaker: "Breaker",
  hedge: "Hedge",
  idempotent: "Safe to repeat",
};

/** In the order of the controls, guards last. */
export const fieldOrder: readonly string[] = Object.keys(LABELS);

export function describeField(name: string, value: unknown): FieldDescription {
  return { label: LABELS[name] ?? name, text: textOf(name, value) };
}

function textOf(name: string, value: unknown): string {
  if (typeof value === "number")
    return name.endsWith("Ms") ? formatDuration(value) : formatInteger(value);
  if (typeof value === "boolean") return boolWords(name, value);
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  if (isObject(value)) return guardWords(name, value);
  return value === undefined ? "none" : String(value).toLowerCase();
}

function boolWords(name: string, isSo: boolean): string {
  if (name === "requireIdempotencyKey") return isSo ? "required" : "not required";
  return isSo ? "yes" : "no";
}

function guardWords(name: string, guard: Readonly<Record<string, unknown>>): string {
  if (name === "retryBudget") return `${percent(Number(guard["ratio"]))} of the calls`;
  if (name === "breaker") return `over ${formatInteger(Number(guard["minCalls"] ?? 20))} calls`;
  if (name === "hedge") return `at ${String(guard["after"])}`;
  return JSON.stringify(guard);
}
