/**
 * Attempt metrics: what the engine does as OpenTelemetry metrics. No attribute holds a URL, a destination
 * or a tenant, because those are callers' data and have any number of values.
 */
import type { Meter } from "@opentelemetry/api";
import { outcomeLabel } from "../engine/events/attempt-outcome.ts";
import type { EngineEvent } from "../engine/events/engine-event.ts";

/** Returns a listener for the engine's events. */
export function attemptMetrics(meter: Meter): (event: EngineEvent) => void {
  const attempts = meter.createHistogram("redrive.attempt.duration", {
    description: "Duration of attempts, by outcome.",
    unit: "s",
  });
  const lags = meter.createHistogram("redrive.attempt.lag", {
    description: "From the due instant of an attempt to its start.",
    unit: "s",
  });
  const ends = meter.createCounter("redrive.tasks.ended", {
    description: "Tasks that ended, by status and reason.",
    unit: "{task}",
  });
  return ({ type, attempt, lagMs, reason }) => {
    if (lagMs !== undefined) lags.record(lagMs / 1000);
    if (attempt !== undefined) {
      attempts.record(attempt.durationMs / 1000, { "redrive.outcome": outcomeLabel(attempt) });
    }
    const status = ENDS[type];
    if (status === undefined) return;
    ends.add(1, { "redrive.task.status": status, ...(reason && { "redrive.reason": reason }) });
  };
}

const ENDS: Readonly<Record<string, string>> = {
  "task.succeeded": "SUCCEEDED",
  "task.exhausted": "EXHAUSTED",
  "task.cancelled": "CANCELLED",
};
