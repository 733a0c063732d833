/**
 * `redrive/otel`: records the calls of a destination as OpenTelemetry spans and metrics, and sends the trace
 * context with requests. Spans and metrics contain numbers and classes, never messages or payloads, which may
 * hold secrets. Needs `@opentelemetry/api`.
 */
import {
  type Attributes,
  type BatchObservableCallback,
  type Context,
  type Counter,
  context,
  type Histogram,
  type Meter,
  metrics,
  type Observable,
  propagation,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Clock } from "@redrive/core";
import {
  type AttemptFailed,
  type CallEvent,
  type GaveUp,
  notify,
  type Succeeded,
} from "./call/call-event.ts";
import type { AttemptContext, Operation, RunOptions } from "./call/options.ts";
import { type Destination, wrapFunction, wrapSame } from "./destination/destination.ts";

/** The name under which tracers and meters are created. */
const SCOPE = "redrive";

export interface TelemetryOptions {
  /** Default: the global provider's `redrive`. */
  readonly tracer?: Tracer | undefined;
  /** Default: the global provider's `redrive`. */
  readonly meter?: Meter | undefined;
}

/**
 * Returns the destination with a span per call, a child span per attempt, metrics of its calls and the
 * state of its guards. The operation runs inside the span of its attempt, so its own spans become children
 * of it. `[Symbol.dispose]` ends the observation of the guards.
 */
export function traced(destination: Destination, options: TelemetryOptions = {}): Destination {
  const { tracer = trace.getTracer(SCOPE), meter = metrics.getMeter(SCOPE) } = options;
  const instruments = createInstruments(meter);
  const stopObserving = observeGuards(meter, destination);

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
    wrap: (fn, overrides) => wrapSame({ run }, fn, overrides),
    wrapWithContext: (fn, overrides) => wrapFunction({ run }, fn, overrides, true),
    on: (type, listener) => destination.on(type, listener),
    stats: () => destination.stats(),
    save: () => destination.save(),
    [Symbol.dispose]() {
      stopObserving();
      destination[Symbol.dispose]();
    },
  };
}

/** An attempt that has not been reported as ended. */
interface OpenAttempt {
  readonly attempt: number;
  readonly copy: number;
  readonly span: Span;
  /** Epoch ms. */
  readonly startedAt: number;
}

/** The spans and metrics of one call and its attempts. */
class TracedCall<T> {
  private readonly tracer: Tracer;
  private readonly instruments: CallInstruments;
  private readonly overrides: RunOptions<T>;
  private readonly span: Span;
  private readonly spanContext: Context;
  private readonly labels: Attributes;
  private readonly clock: Clock;
  private readonly startedAt: number;
  private open: OpenAttempt[] = [];

  constructor(
    { name, clock }: Destination,
    tracer: Tracer,
    instruments: CallInstruments,
    overrides: RunOptions<T>,
  ) {
    this.tracer = tracer;
    this.instruments = instruments;
    this.overrides = overrides;
    this.clock = clock;
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
    this.open.push({ attempt, copy, span, startedAt: this.clock.now() });
    const attemptSpan = trace.setSpan(this.spanContext, span);
    rememberAttempt(attemptContext, attemptSpan);
    return context.with(attemptSpan, () => operation(attemptContext));
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
    const ended = this.takeOpen(event);
    const span = ended?.span;
    if (status !== undefined) span?.setAttribute("http.response.status_code", status);
    if (error !== undefined) span?.setAttribute("error.type", errorType(error));
    span?.setStatus({ code: SpanStatusCode.ERROR });
    this.endAttempt(ended, verdict);
  }

  private succeeded(event: Succeeded): void {
    this.endAttempt(this.takeOpen(event), "success");
    this.endCall("success", event.attempt, event.at);
  }

  private gaveUp({ reason, attempts, at }: GaveUp): void {
    this.instruments.exhausted.add(1, { ...this.labels, "redrive.reason": reason });
    if (reason === "retry-budget") this.instruments.budgetExhausted.add(1, this.labels);
    this.span.setAttribute("redrive.reason", reason);
    this.span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
    this.endCall(reason, attempts, at);
  }

  private endCall(outcome: string, attempts: number, at: number): void {
    const labels = { ...this.labels, "redrive.outcome": outcome };
    this.span.setAttribute("redrive.attempts", attempts);
    this.instruments.calls.add(1, labels);
    this.instruments.callDuration.record((at - this.startedAt) / 1000, labels);
  }

  /** Hedged copies have the number of their attempt. */
  private takeOpen({ attempt, copy = 0 }: AttemptFailed | Succeeded): OpenAttempt | undefined {
    const found = this.open.find((one) => one.attempt === attempt && one.copy === copy);
    this.open = this.open.filter((one) => one !== found);
    return found;
  }

  private endAttempt(ended: OpenAttempt | undefined, verdict: string): void {
    // The late result of an attempt that has timed out before.
    if (ended === undefined) return;
    const labels = { ...this.labels, "redrive.verdict": verdict };
    this.instruments.attempts.add(1, labels);
    ended.span.setAttribute("redrive.verdict", verdict);
    ended.span.end();
    const durationMs = Math.max(0, this.clock.now() - ended.startedAt);
    this.instruments.attemptDuration.record(durationMs / 1000, labels);
  }

  /** Ends the spans when the call ends. Attempts that were not reported as ended were aborted. */
  async follow(running: Promise<T>): Promise<T> {
    try {
      return await running;
    } finally {
      for (const open of this.open) this.endAttempt(open, "aborted");
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

/** The metrics of calls and their attempts. With Prometheus, their names are those of the service. */
interface CallInstruments {
  readonly calls: Counter;
  readonly callDuration: Histogram;
  readonly attempts: Counter;
  readonly attemptDuration: Histogram;
  readonly delay: Histogram;
  readonly exhausted: Counter;
  readonly budgetExhausted: Counter;
}

function createInstruments(meter: Meter): CallInstruments {
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

const BREAKER_STATES = ["CLOSED", "HALF_OPEN", "OPEN"] as const;

/** The state of a destination's guards, read whenever metrics are collected. Returns a function that stops the observation. */
function observeGuards(meter: Meter, destination: Destination): () => void {
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

// The span of an attempt is sent with its request, so that the server's spans become its children.

/** The spans of running attempts. */
const attemptSpans = new WeakMap<AttemptContext, Context>();

function rememberAttempt(attempt: AttemptContext, span: Context): void {
  attemptSpans.set(attempt, span);
}

/**
 * The headers that carry the trace context of an attempt (`traceparent` and so on, by the registered
 * propagator), for clients other than fetch. Empty if the destination is not traced.
 */
export function traceHeaders(attempt: AttemptContext): Record<string, string> {
  const headers: Record<string, string> = {};
  const span = attemptSpans.get(attempt);
  if (span !== undefined) propagation.inject(span, headers);
  return headers;
}

/**
 * A fetch that sends the active trace context, for `createFetch(traced(destination), { fetch: tracedFetch()
 * })`. Each attempt sends its own span. Needs the context manager that every setup of the SDK registers.
 */
export function tracedFetch(send?: typeof fetch): typeof fetch {
  return (input, init) => {
    const carried: Record<string, string> = {};
    propagation.inject(context.active(), carried);
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
    for (const [name, value] of Object.entries(carried)) headers.set(name, value);
    return (send ?? fetch)(input, { ...init, headers });
  };
}

/** The events of `redrive/idempotency` and `redrive/consume` that mean a duplicate. */
const DUPLICATES = ["replayed", "in-progress", "mismatch", "duplicate"];

/**
 * A listener that counts duplicates as `retry.duplicates`, for `idempotency({ onEvent: countDuplicates() })`.
 * `meter` is by default the global provider's `redrive`.
 */
export function countDuplicates(
  meter: Meter = metrics.getMeter(SCOPE),
): (event: { readonly type: string }) => void {
  const duplicates = meter.createCounter("retry.duplicates", {
    unit: "{request}",
    description: "Requests and messages that arrived more than once, by what happened to them.",
  });
  return ({ type }) => {
    if (DUPLICATES.includes(type)) duplicates.add(1, { "redrive.duplicate": type });
  };
}
