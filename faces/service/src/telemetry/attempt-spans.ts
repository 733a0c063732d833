/**
 * Attempt spans: each attempt as a span of the task's trace: a child of the caller's span or, if the
 * caller sent no `traceparent`, of a span that all attempts of the task have in common by its id.
 */
import {
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { AttemptResult } from "../deliver/attempt-result.ts";
import { overridesIn } from "../deliver/request-headers.ts";
import type { AttemptTrace, StartTrace } from "../engine/run/attempt-trace.ts";
import type { Settle, StartedTask } from "../model/batch.ts";
import { requestAttributes, resultAttributes } from "./span-attributes.ts";

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
