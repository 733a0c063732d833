/**
 * Open telemetry: connects the engine with a tracer and a meter of OpenTelemetry. It is loaded only if
 * telemetry is configured. The SDK and its exporters belong to the caller.
 */
import { type Meter, metrics, type Tracer, trace } from "@opentelemetry/api";
import type { EngineEvent } from "../engine/events/engine-event.ts";
import type { StartTrace } from "../engine/run/attempt-trace.ts";
import { attemptMetrics } from "./attempt-metrics.ts";
import { attemptSpans } from "./attempt-spans.ts";

export interface TelemetryOptions {
  /** Creates the spans. Default: `@redrive/service` of the global provider. */
  readonly tracer?: Tracer;
  /** Creates the metrics. Default: `@redrive/service` of the global provider. */
  readonly meter?: Meter;
}

export interface Telemetry {
  readonly startTrace: StartTrace;
  readonly onEvent: (event: EngineEvent) => void;
}

const SCOPE = "@redrive/service";

export function openTelemetry(options: TelemetryOptions): Telemetry {
  const { tracer = trace.getTracer(SCOPE), meter = metrics.getMeter(SCOPE) } = options;
  return { startTrace: attemptSpans(tracer), onEvent: attemptMetrics(meter) };
}
