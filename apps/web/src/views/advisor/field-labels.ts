/** Field labels: names and values of policy fields and guards, as in the controls of the other views. */
import { formatDuration, formatInteger, formatPercent, isObject } from "@redrive/core";

interface FieldDescription {
  readonly label: string;
  readonly text: string;
}

const LABELS: Readonly<Record<string, string>> = {
  maxAttempts: "Attempts",
  jitterType: "Jitter",
  initialDelayMs: "First wait",
  maxDelayMs: "Longest wait",
  totalBudgetMs: "Total budget",
  attemptTimeoutMs: "Attempt timeout",
  connectTimeoutMs: "Connect timeout",
  requireIdempotencyKey: "Idempotency key",
  retryableStatusCodes: "Retried statuses",
  retryableGrpcCodes: "Retried gRPC codes",
  retryableErrors: "Retried errors",
  retryBudget: "Retry budget",
  breaker: "Breaker",
  hedge: "Hedge",
  idempotent: "Safe to repeat",
};

/** In the order of the controls; guards come last. */
export const fieldOrder: readonly string[] = Object.keys(LABELS);

export function describeField(name: string, value: unknown): FieldDescription {
  return { label: LABELS[name] ?? name, text: formatValue(name, value) };
}

/** For example "sets attempts to 1; removes the jitter". Empty if nothing changes. */
export function changesText(changes: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(changes);
  const labelOf = (name: string) => (LABELS[name] ?? name).replace(/^[A-Z](?=[a-z])/u, lower);
  const set = entries
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${labelOf(name)} to ${formatValue(name, value)}`);
  const removed = entries
    .filter(([, value]) => value === undefined)
    .map(([name]) => `the ${labelOf(name)}`);
  const parts = [
    set.length === 0 ? "" : `sets ${set.join(", ")}`,
    removed.length === 0 ? "" : `removes ${removed.join(", ")}`,
  ];
  return parts.filter(Boolean).join("; ");
}

function lower(text: string): string {
  return text.toLowerCase();
}

function formatValue(name: string, value: unknown): string {
  if (typeof value === "number")
    return name.endsWith("Ms") ? formatDuration(value) : formatInteger(value);
  if (typeof value === "boolean") return formatBoolean(name, value);
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  if (isObject(value)) return formatGuard(name, value);
  return value === undefined ? "none" : String(value).toLowerCase();
}

function formatBoolean(name: string, value: boolean): string {
  if (name === "requireIdempotencyKey") return value ? "required" : "not required";
  return value ? "yes" : "no";
}

function formatGuard(name: string, guard: Readonly<Record<string, unknown>>): string {
  if (name === "retryBudget") return `${formatPercent(Number(guard["ratio"]))} of the calls`;
  if (name === "breaker") return `over ${formatInteger(Number(guard["minCalls"] ?? 20))} calls`;
  if (name === "hedge") return `at ${String(guard["after"])}`;
  return JSON.stringify(guard);
}
