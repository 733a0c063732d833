/**
 * Open telemetry: connects the engine with a tracer and a meter of OpenTelemetry. It is loaded only if
 * telemetry is configured. The SDK and its exporters belong to the caller.
 */
import {
  type Attributes,
  type Meter,
  metrics,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { statusText } from "@redrive/core";
import type { AttemptResult } from "./deliver/attempt.ts";
import { overridesIn } from "./deliver/deliverer.ts";
import { brokerPlace, parseTargetUrl, type TargetUrl } from "./deliver/target.ts";
import { type EngineEvent, outcomeLabel } from "./engine/events.ts";
import type { AttemptTrace, StartTrace } from "./engine/runner.ts";
import type { Settle, StartedTask } from "./model/batch.ts";

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

// Attempt metrics: what the engine does as OpenTelemetry metrics. No attribute holds a URL, a
// destination or a tenant, because those are callers' data and have any number of values.

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

// Attempt spans: each attempt as a span of the task's trace: a child of the caller's span or, if
// the caller sent no `traceparent`, of a span that all attempts of the task have in common by its
// id.

export function attemptSpans(tracer: Tracer): StartTrace {
  return (task, waits, now) => {
    const { name, kind, attributes } = requestAttributes(task);
    const parent = trace.setSpanContext(ROOT_CONTEXT, parentOf(task));
    const options = { kind, attributes, startTime: now };
    const span = tracer.startSpan(name, options, parent);
    for (const { cause, sinceAt, durationMs } of waits) {
      const wait = { "redrive.wait.cause": cause, "redrive.wait.duration_ms": durationMs };
      span.addEvent("redrive.waited", wait, sinceAt + durationMs);
    }
    return new SpannedAttempt(span, kind, now);
  };
}

class SpannedAttempt implements AttemptTrace {
  readonly #span: Span;
  readonly #kind: SpanKind;
  readonly #startedAt: number;
  readonly traceparent: string;

  // Mutable state.
  #endedAt: number;

  constructor(span: Span, kind: SpanKind, startedAt: number) {
    this.#span = span;
    this.#kind = kind;
    this.#startedAt = startedAt;
    this.#endedAt = startedAt;
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  }

  recordResult(result: AttemptResult): void {
    this.#endedAt = this.#startedAt + result.durationMs;
    this.#span.setAttributes(resultAttributes(result, this.#kind));
    if (result.outcome.kind !== "success") this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end({ status, reason, attempt }: Settle): void {
    const span = this.#span;
    if (status !== "PENDING") span.setAttribute("redrive.task.status", status);
    if (reason !== null) span.setAttribute("redrive.reason", reason);
    if (attempt === null) span.setAttribute("redrive.returned", true);
    else if (attempt.nextDelayMs !== null) {
      const { nextDelayMs, delaySource } = attempt;
      const retry = {
        "redrive.wait.cause": delaySource ?? "policy",
        "redrive.wait.duration_ms": nextDelayMs,
      };
      span.addEvent("redrive.retry", retry, this.#endedAt);
    }
    span.end(this.#endedAt);
  }
}

/** The span above all attempts of a task. It is the same for each of them, on every node. */
function parentOf({ headers, taskId }: StartedTask): SpanContext {
  const { traceparent } = overridesIn(headers);
  if (traceparent !== undefined) {
    const [, traceId = "", spanId = "", flags = ""] = traceparent.split("-");
    return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  }
  const digits = taskId.replaceAll("-", "");
  const spanId = digits.slice(16);
  return { traceId: digits, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true };
}

// Span attributes: what a span says about an attempt, with the names of OpenTelemetry's semantic
// conventions (HTTP 1.23, RPC release candidate, messaging 1.30) and our own, which begin with
// `redrive.`. They hold no header, no body and no path or query of an HTTP URL, because those may
// be secrets.

/** What is known before the attempt. */
interface RequestAttributes {
  /** The name of the span: the method of HTTP or of gRPC, or the queue of a message. */
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
}

export function requestAttributes(task: StartedTask): RequestAttributes {
  const { taskId, tenantId, destination, attemptNumber, policyId, targetUrl, method } = task;
  const target = parseTargetUrl(targetUrl);
  const own: Attributes = {
    "redrive.task.id": taskId,
    "redrive.tenant": tenantId,
    "redrive.destination": destination,
    "redrive.policy": policyId,
    "redrive.attempt": attemptNumber,
  };
  if (target === undefined) return { name: method, kind: SpanKind.CLIENT, attributes: own };
  const { name, kind, attributes } = protocolAttributes(target, task);
  const server = { "server.address": target.url.hostname, "server.port": target.port };
  return { name, kind, attributes: { ...own, ...server, ...attributes } };
}

function protocolAttributes(target: TargetUrl, task: StartedTask): RequestAttributes {
  switch (target.scheme) {
    case "http":
      return httpAttributes(target, task);
    case "grpc": {
      const name = target.url.pathname.slice(1);
      const attributes = { "rpc.system.name": "grpc", "rpc.method": name };
      return { name, kind: SpanKind.CLIENT, attributes };
    }
    default:
      return messageAttributes(target);
  }
}

function httpAttributes(
  { url, origin }: TargetUrl,
  { method, attemptNumber }: StartedTask,
): RequestAttributes {
  const attributes: Attributes = {
    "http.request.method": method,
    "url.scheme": url.protocol.slice(0, -1),
    "url.full": `${origin}/REDACTED`,
  };
  if (attemptNumber > 1) attributes["http.request.resend_count"] = attemptNumber - 1;
  return { name: method, kind: SpanKind.CLIENT, attributes };
}

function messageAttributes(target: TargetUrl): RequestAttributes {
  const place = brokerPlace(target);
  const attributes: Attributes = {
    "messaging.system": target.scheme === "amqp" ? "rabbitmq" : "redis",
    "messaging.operation.name": "publish",
    "messaging.operation.type": "send",
  };
  if (typeof place === "string") return { name: "publish", kind: SpanKind.PRODUCER, attributes };
  const name = place.kind === "amqp" ? place.exchange || place.routingKey : place.stream;
  attributes["messaging.destination.name"] = name;
  return { name: `publish ${name}`, kind: SpanKind.PRODUCER, attributes };
}

/** What the result adds. */
export function resultAttributes(
  { outcome, status, errorClass, phases }: AttemptResult,
  kind: SpanKind,
): Attributes {
  const attributes: Attributes = { "redrive.outcome": outcome.kind };
  if (status !== null && status >= 100) attributes["http.response.status_code"] = status;
  else if (status !== null) {
    // The conventions have no name for the answer of a broker.
    const isMessage = kind === SpanKind.PRODUCER;
    const name = isMessage ? "redrive.broker.answer" : "rpc.response.status_code";
    attributes[name] = statusText(status);
  }
  if (outcome.kind !== "success") {
    const known = status === null ? undefined : statusText(status);
    attributes["error.type"] = errorClass ?? known ?? outcome.kind;
  }
  for (const [phase, name] of PHASES) {
    const ms = phases[phase];
    if (ms !== null) attributes[name] = ms;
  }
  return attributes;
}

const PHASES = [
  ["dnsMs", "redrive.phase.dns_ms"],
  ["connectMs", "redrive.phase.connect_ms"],
  ["tlsMs", "redrive.phase.tls_ms"],
  ["firstByteMs", "redrive.phase.first_byte_ms"],
] as const;
