/**
 * `redrive/otel`: records the calls of a destination as OpenTelemetry spans and metrics, and sends the trace
 * context with requests. Spans and metrics contain numbers and classes, never messages or payloads, which may
 * hold secrets. Needs `@opentelemetry/api`.
 */
export { countDuplicates } from "../otel/duplicates.ts";
export { tracedFetch, traceHeaders } from "../otel/trace-context.ts";
export { type TelemetryOptions, traced } from "../otel/traced.ts";
