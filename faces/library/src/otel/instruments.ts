/** Instruments: the metrics of calls and their attempts. With Prometheus, their names are those of the service. */
import type { Counter, Histogram, Meter } from "@opentelemetry/api";

export interface CallInstruments {
  readonly calls: Counter;
  readonly callDuration: Histogram;
  readonly attempts: Counter;
  readonly attemptDuration: Histogram;
  readonly delay: Histogram;
  readonly exhausted: Counter;
  readonly budgetExhausted: Counter;
}

export function createInstruments(meter: Meter): CallInstruments {
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { unit, description });
  const seconds = (name: string, description: string) =>
    meter.createHistogram(name, { unit: "s", description });
  return {
    calls: counter("retry.calls", "{call}", "Calls that ended, by outcome."),
    callDuration: seconds("retry.call.duration", "Duration of calls, including waits."),
    attempts: counter("retry.attempts", "{attempt}", "Attempts that ended, by verdict."),
    attemptDuration: seconds("retry.attempt.duration", "Duration of attempts."),
    delay: seconds("retry.backoff.delay", "Delays before retries."),
    exhausted: counter("retry.exhausted", "{call}", "Calls that were given up, by reason."),
    budgetExhausted: counter(
      "retry.budget.exhausted",
      "{call}",
      "Calls that were given up because the retry budget was empty.",
    ),
  };
}
