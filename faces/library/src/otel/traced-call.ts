/** Traced call: the spans and metrics of one call and its attempts. */
import {
  type Attributes,
  type Context,
  context,
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
} from "../call/call-event.ts";
import type { AttemptContext, Operation, RunOptions } from "../call/options.ts";
import type { Destination } from "../destination/destination.ts";
import type { CallInstruments } from "./instruments.ts";
import { rememberAttempt } from "./trace-context.ts";

/** An attempt that has not been reported as ended. */
interface OpenAttempt {
  readonly attempt: number;
  readonly copy: number;
  readonly span: Span;
  /** Epoch ms. */
  readonly startedAt: number;
}

/** One call. */
export class TracedCall<T> {
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
    const labels = { ...this.labels, "redrive.verdict": verdict };
    this.instruments.attempts.add(1, labels);
    if (ended === undefined) return;
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
