/**
 * `redrive/otel`: the calls of a destination as OpenTelemetry spans and metrics. They carry numbers
 * and classes, never messages or payloads, which may hold secrets. Needs `@opentelemetry/api`.
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
import type { Destination } from "./destination.ts";
import {
  type AttemptFailed,
  type CallEvent,
  type GaveUp,
  notify,
  type Succeeded,
} from "./events.ts";
import type { AttemptContext, Attempted, RunOptions } from "./options.ts";
import { wrapped } from "./wrapped.ts";

export interface TelemetryOptions {
  /** Default: the global provider's `redrive`. */
  readonly tracer?: Tracer | undefined;
  /** Default: the global provider's `redrive`. */
  readonly meter?: Meter | undefined;
}

const SCOPE = "redrive";

/**
 * The same destination, with a span for each call, one below it for each attempt (in which the
 * wrapped function runs, so that its own spans hang there), and four metrics.
 */
export function traced(destination: Destination, options: TelemetryOptions = {}): Destination {
  const { tracer = trace.getTracer(SCOPE), meter = metrics.getMeter(SCOPE) } = options;
  const instruments = createInstruments(meter);

  function run<T>(fn: Attempted<T>, overrides: RunOptions<T> = {}): Promise<T> {
    const call = new TracedCall(destination, tracer, instruments, overrides);
    const onEvent = (event: CallEvent) => call.hear(event);
    return call.follow(
      destination.run((told) => call.attempt(fn, told), { ...overrides, onEvent }),
    );
  }

  return {
    name: destination.name,
    policy: destination.policy,
    clock: destination.clock,
    classify: destination.classify,
    run,
    wrap: (fn, overrides) => wrapped({ run }, fn, overrides),
    wrapWithContext: (fn, overrides) => wrapped({ run }, fn, overrides, true),
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
      description: "Calls that ended, by how: success, or the reason for giving up.",
      unit: "{call}",
    }),
    attempts: meter.createCounter("redrive.attempts", {
      description: "Attempts that ended, by verdict.",
      unit: "{attempt}",
    }),
    duration: meter.createHistogram("redrive.call.duration", {
      description: "Calls from start to end, waits included.",
      unit: "s",
    }),
    delay: meter.createHistogram("redrive.retry.delay", {
      description: "Waits before a retry.",
      unit: "s",
    }),
  };
}

/** An attempt whose end was not told yet. */
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
  private readonly inside: Context;
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
    this.inside = trace.setSpan(context.active(), this.span);
  }

  attempt(fn: Attempted<T>, told: AttemptContext): T | PromiseLike<T> {
    const { attempt, copy } = told;
    const attributes = {
      ...this.labels,
      "redrive.attempt": attempt,
      ...(copy > 0 && { "redrive.copy": copy }),
    };
    const span = this.tracer.startSpan("redrive attempt", { attributes }, this.inside);
    this.open.push({ attempt, copy, span });
    return context.with(trace.setSpan(this.inside, span), () => fn(told));
  }

  hear(event: CallEvent): void {
    this.note(event);
    notify(this.overrides.onEvent, event);
  }

  private note(event: CallEvent): void {
    if (event.type === "attempt-failed") this.failed(event);
    else if (event.type === "success") this.succeeded(event);
    else if (event.type === "give-up") this.gaveUp(event);
    // An attempt may be told to be still running after the call.
    else if (this.span.isRecording()) this.span.addEvent(event.type, numbersOf(event));
    if (event.type !== "retry") return;
    this.instruments.delay.record(event.delayMs / 1000, this.labels);
  }

  private failed(event: AttemptFailed): void {
    const { verdict, status, error } = event;
    const span = this.take(event);
    if (status !== undefined) span?.setAttribute("http.response.status_code", status);
    if (error !== undefined) span?.setAttribute("error.type", typeOf(error));
    span?.setStatus({ code: SpanStatusCode.ERROR });
    this.endAttempt(span, verdict);
  }

  private succeeded(event: Succeeded): void {
    this.endAttempt(this.take(event), "success");
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

  /** Copies share the number of their attempt. */
  private take({ attempt, copy = 0 }: AttemptFailed | Succeeded): Span | undefined {
    const found = this.open.find((one) => one.attempt === attempt && one.copy === copy);
    this.open = this.open.filter((one) => one !== found);
    return found?.span;
  }

  private endAttempt(span: Span | undefined, verdict: string): void {
    span?.setAttribute("redrive.verdict", verdict);
    span?.end();
    this.instruments.attempts.add(1, { ...this.labels, "redrive.verdict": verdict });
  }

  /** Ends the spans with the call; attempts of which nothing was told were cut off. */
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

/** What an event says in numbers and words, by its own names. */
function numbersOf(event: CallEvent): Attributes {
  const { at: _, type: __, destination: ___, ...told } = event;
  return Object.fromEntries(
    Object.entries(told).filter(([, value]) => ["number", "string"].includes(typeof value)),
  ) as Attributes;
}

/** A class of errors, as the semantic conventions have it: a code or a name, never a message. */
function typeOf(error: unknown): string {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown };
  if (typeof code === "string" || typeof code === "number") return String(code);
  return typeof name === "string" ? name : typeof error;
}
