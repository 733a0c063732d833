/**
 * `redrive/otel`: records the calls of a destination as OpenTelemetry spans and metrics. They contain
 * numbers and classes, never messages or payloads, which may hold secrets. Needs `@opentelemetry/api`.
 */
import {
  type Attributes,
  type Context,
  type Counter,
  context,
  type Histogram,
  type Meter,
  metrics,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import {
  type AttemptFailed,
  type CallEvent,
  type GaveUp,
  notify,
  type Succeeded,
} from "../call/call-event.ts";
import type { AttemptContext, Operation, RunOptions } from "../call/options.ts";
import type { Destination } from "../destination/destination.ts";
import { wrapFunction } from "../destination/wrapped-function.ts";

export interface TelemetryOptions {
  /** Default: the global provider's `redrive`. */
  readonly tracer?: Tracer | undefined;
  /** Default: the global provider's `redrive`. */
  readonly meter?: Meter | undefined;
}

const SCOPE = "redrive";

/**
 * Returns the destination with a span per call, a child span per attempt and four metrics. The
 * operation runs inside the span of its attempt, so its own spans become children of it.
 */
export function traced(destination: Destination, options: TelemetryOptions = {}): Destination {
  const { tracer = trace.getTracer(SCOPE), meter = metrics.getMeter(SCOPE) } = options;
  const instruments = createInstruments(meter);

  function run<T>(fn: Operation<T>, overrides: RunOptions<T> = {}): Promise<T> {
    const call = new TracedCall(destination, tracer, instruments, overrides);
    const onEvent = (event: CallEvent) => call.handleEvent(event);
    return call.follow(
      destination.run((context) => call.attempt(fn, context), { ...overrides, onEvent }),
    );
  }

  return {
    name: destination.name,
    policy: destination.policy,
    clock: destination.clock,
    classify: destination.classify,
    run,
    wrap: (fn, overrides) => wrapFunction({ run }, fn, overrides),
    wrapWithContext: (fn, overrides) => wrapFunction({ run }, fn, overrides, true),
    on: (type, listener) => destination.on(type, listener),
    stats: () => destination.stats(),
    save: () => destination.save(),
    [Symbol.dispose]: () => destination[Symbol.dispose](),
  };
}

interface Instruments {
  readonly calls: Counter;
  readonly attempts: Counter;
  readonly duration: Histogram;
  readonly delay: Histogram;
}

function createInstruments(meter: Meter): Instruments {
  return {
    calls: meter.createCounter("redrive.calls", {
      description: "Calls that ended, by outcome: success, or the reason for giving up.",
      unit: "{call}",
    }),
    attempts: meter.createCounter("redrive.attempts", {
      description: "Attempts that ended, by verdict.",
      unit: "{attempt}",
    }),
    duration: meter.createHistogram("redrive.call.duration", {
      description: "Duration of calls, including waits.",
      unit: "s",
    }),
    delay: meter.createHistogram("redrive.retry.delay", {
      description: "Delays before retries.",
      unit: "s",
    }),
  };
}

/** An attempt that has not been reported as ended. */
interface OpenAttempt {
  readonly attempt: number;
  readonly copy: number;
  readonly span: Span;
}

/** One call and its spans. */
class TracedCall<T> {
  private readonly tracer: Tracer;
  private readonly instruments: Instruments;
  private readonly overrides: RunOptions<T>;
  private readonly span: Span;
  private readonly spanContext: Context;
  private readonly labels: Attributes;
  private readonly startedAt: number;
  private open: OpenAttempt[] = [];

  constructor(
    { name, clock }: Destination,
    tracer: Tracer,
    instruments: Instruments,
    overrides: RunOptions<T>,
  ) {
    this.tracer = tracer;
    this.instruments = instruments;
    this.overrides = overrides;
    this.startedAt = clock.now();
    this.labels = { "redrive.destination": name };
    const { key } = overrides;
    const attributes = { ...this.labels, ...(key !== undefined && { "redrive.key": key }) };
    this.span = tracer.startSpan(`redrive ${name}`, { attributes });
    this.spanContext = trace.setSpan(context.active(), this.span);
  }

  attempt(operation: Operation<T>, attemptContext: AttemptContext): T | PromiseLike<T> {
    const { attempt, copy } = attemptContext;
    const attributes = {
      ...this.labels,
      "redrive.attempt": attempt,
      ...(copy > 0 && { "redrive.copy": copy }),
    };
    const span = this.tracer.startSpan("redrive attempt", { attributes }, this.spanContext);
    this.open.push({ attempt, copy, span });
    return context.with(trace.setSpan(this.spanContext, span), () => operation(attemptContext));
  }

  handleEvent(event: CallEvent): void {
    this.recordEvent(event);
    notify(this.overrides.onEvent, event);
  }

  private recordEvent(event: CallEvent): void {
    if (event.type === "attempt-failed") this.failed(event);
    else if (event.type === "success") this.succeeded(event);
    else if (event.type === "give-up") this.gaveUp(event);
    // `attempt-still-running` may arrive after the call has ended.
    else if (this.span.isRecording()) this.span.addEvent(event.type, eventAttributes(event));
    if (event.type !== "retry") return;
    this.instruments.delay.record(event.delayMs / 1000, this.labels);
  }

  private failed(event: AttemptFailed): void {
    const { verdict, status, error } = event;
    const span = this.takeSpan(event);
    if (status !== undefined) span?.setAttribute("http.response.status_code", status);
    if (error !== undefined) span?.setAttribute("error.type", errorType(error));
    span?.setStatus({ code: SpanStatusCode.ERROR });
    this.endAttempt(span, verdict);
  }

  private succeeded(event: Succeeded): void {
    this.endAttempt(this.takeSpan(event), "success");
    this.endCall("success", event.attempt, event.at);
  }

  private gaveUp({ reason, attempts, at }: GaveUp): void {
    this.span.setAttribute("redrive.reason", reason);
    this.span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
    this.endCall(reason, attempts, at);
  }

  private endCall(outcome: string, attempts: number, at: number): void {
    const labels = { ...this.labels, "redrive.outcome": outcome };
    this.span.setAttribute("redrive.attempts", attempts);
    this.instruments.calls.add(1, labels);
    this.instruments.duration.record((at - this.startedAt) / 1000, labels);
  }

  /** Hedged copies have the number of their attempt. */
  private takeSpan({ attempt, copy = 0 }: AttemptFailed | Succeeded): Span | undefined {
    const found = this.open.find((one) => one.attempt === attempt && one.copy === copy);
    this.open = this.open.filter((one) => one !== found);
    return found?.span;
  }

  private endAttempt(span: Span | undefined, verdict: string): void {
    span?.setAttribute("redrive.verdict", verdict);
    span?.end();
    this.instruments.attempts.add(1, { ...this.labels, "redrive.verdict": verdict });
  }

  /** Ends the spans when the call ends. Attempts that were not reported as ended were aborted. */
  async follow(running: Promise<T>): Promise<T> {
    try {
      return await running;
    } finally {
      for (const { span } of this.open) this.endAttempt(span, "aborted");
      this.open = [];
      this.span.end();
    }
  }
}

/** The numbers and strings of an event. */
function eventAttributes(event: CallEvent): Attributes {
  const { at: _, type: __, destination: ___, ...details } = event;
  return Object.fromEntries(
    Object.entries(details).filter(([, value]) => ["number", "string"].includes(typeof value)),
  ) as Attributes;
}

/** The value of `error.type` by the semantic conventions: a code or a name, never a message. */
function errorType(error: unknown): string {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown };
  if (typeof code === "string" || typeof code === "number") return String(code);
  return typeof name === "string" ? name : typeof error;
}
