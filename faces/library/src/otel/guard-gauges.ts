/** Guard gauges: the state of a destination's guards, read whenever metrics are collected. */
import type { BatchObservableCallback, Meter, Observable } from "@opentelemetry/api";
import type { Destination } from "../destination/destination.ts";

const BREAKER_STATES = ["CLOSED", "HALF_OPEN", "OPEN"] as const;

/** Returns a function that stops the observation. */
export function observeGuards(meter: Meter, destination: Destination): () => void {
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const limit = gauge("retry.concurrency.limit", "{attempt}", "Limit of running attempts.");
  const inFlight = gauge("retry.concurrency.in_flight", "{attempt}", "Running attempts.");
  const tokens = gauge("retry.budget.tokens", "{token}", "Tokens in the retry budget.");
  const available = gauge("retry.budget.available", "1", "1 if the budget would allow a retry.");
  const breaker = gauge(
    "retry.breaker.state",
    "1",
    "1 for the state of the breaker, 0 for the other states.",
  );
  const labels = { "redrive.destination": destination.name };

  const observe: BatchObservableCallback = (result) => {
    const stats = destination.stats();
    const values: readonly (readonly [Observable, number | undefined])[] = [
      [limit, stats.concurrencyLimit],
      [inFlight, stats.inFlight],
      [tokens, tokensOf(destination)],
      [available, stats.retryBudget === undefined ? undefined : Number(stats.retryBudget)],
    ];
    for (const [instrument, value] of values) {
      if (value !== undefined) result.observe(instrument, value, labels);
    }
    if (stats.breaker === undefined) return;
    for (const state of BREAKER_STATES) {
      const value = state === stats.breaker ? 1 : 0;
      result.observe(breaker, value, { ...labels, "redrive.breaker.state": state });
    }
  };

  const observed = [limit, inFlight, tokens, available, breaker];
  meter.addBatchObservableCallback(observe, observed);
  return () => meter.removeBatchObservableCallback(observe, observed);
}

/** Undefined for the default kind of budget, which is a share of the traffic and has no tokens. */
function tokensOf(destination: Destination): number | undefined {
  const { retryBudget } = destination.save().guards;
  if (!retryBudget || retryBudget.kind === "RATIO") return undefined;
  return retryBudget.kind === "GRPC" ? retryBudget.tokens / 1000 : retryBudget.tokens;
}
