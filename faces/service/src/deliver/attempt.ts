/**
 * Attempt: one request on the wire, from dispatch to result. It ends once, at the first of these:
 * the end of the response, an error, the deadline, the caller's abort, or a response above the read
 * limits. A complete status counts even if the rest does not arrive in time. A success whose body
 * breaks off is the exception: nobody knows what it would have said.
 */
import type { Readable } from "node:stream";
import {
  ABORTED,
  type AbortSignalLike,
  type Cancel,
  type Clock,
  headerHint,
  type Outcome,
  statusOutcome,
} from "@redrive/core";
import type { Dispatcher } from "undici";
import type { AttemptPhases, Headers } from "../model/task.ts";
import type { DeadlineTimer, TimerEntry } from "../time/deadline-timer.ts";
import { type Opener, ReceivedTooMuch, type SocketEndpoint } from "./connector.ts";
import {
  type BodyFault,
  type Failure,
  type FailureClass,
  failureOf,
  type Shortage,
  timeoutFailure,
} from "./failure.ts";
import {
  BodyCapture,
  MAX_READ_BODY,
  MAX_STORED_BODY,
  type ResponseHead,
  readHead,
  redactHeaders,
  requestIdOf,
  type SecretRequest,
  secretsOf,
  secretVariants,
} from "./response.ts";
import type { Target } from "./target.ts";

/** The request of an attempt, its options, and the callback for its result. */
export interface AttemptCall {
  readonly request: SecretRequest & {
    /** Whose limit of lookups applies. */
    readonly tenantId?: string;
  };
  readonly options: {
    /** For the whole attempt. */
    readonly attemptTimeoutMs: number;
    /** For lookup, connection and TLS together. */
    readonly connectTimeoutMs: number;
    readonly signal?: AbortSignalLike;
    readonly mayStart?: () => boolean;
  };
  /** The instant that counts as the time of the attempt; epoch ms. */
  readonly now: number;
  readonly settle: (result: AttemptResult) => void;
}

/** A body that is too long for memory. */
export interface BodyStream {
  readonly stream: Readable;
  readonly length: number;
}

/** An attempt over a connection that several attempts share. */
export interface SessionAttemptCall extends AttemptCall {
  readonly request: AttemptCall["request"] & {
    readonly attemptNumber: number;
    readonly body: Uint8Array | null;
    /** The body instead. */
    readonly stream?: BodyStream;
  };
  readonly target: Target;
  readonly endpoint: SocketEndpoint;
  /** Alternating names and values. */
  readonly headers: readonly string[];
}

/** Implements undici's older handler interface, which passes header bytes without parsing them. */
export class Attempt implements TimerEntry, Opener, AttemptProgress, Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  readonly #deadlines: DeadlineTimer;
  readonly #call: AttemptCall;
  readonly #startMs: number;
  readonly request: SecretRequest;
  readonly #stopListening: Cancel | undefined;
  readonly deadlineMs: number;
  readonly connectTimeoutMs: number;
  readonly tenantId: string;

  // Mutable state: the progress of the attempt.
  slot = -1;
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  cancelOpening: Cancel | undefined;
  #isOver = false;
  /** Ends the request in undici; undefined until its first byte may be sent. */
  #abort: ((error?: Error) => void) | undefined;
  #sentMs = 0;
  firstByteMs: number | null = null;
  head: ResponseHead | undefined;
  body: BodyCapture | undefined;

  constructor(clock: Clock, deadlines: DeadlineTimer, call: AttemptCall) {
    const { attemptTimeoutMs, connectTimeoutMs, signal } = call.options;
    this.#clock = clock;
    this.#deadlines = deadlines;
    this.#call = call;
    this.request = call.request;
    this.#startMs = clock.monotonicMs();
    this.deadlineMs = this.#startMs + attemptTimeoutMs;
    this.connectTimeoutMs = Math.min(connectTimeoutMs, attemptTimeoutMs);
    this.tenantId = call.request.tenantId ?? "";
    deadlines.add(this);
    this.#stopListening = signal && onAbort(signal, () => this.#endEarly(undefined));
  }

  /** Called when the deadline has passed. */
  expire(): void {
    this.#endEarly(timeoutFailure(this.#call.options.attemptTimeoutMs));
  }

  /** undici is about to write: from here on bytes may have been sent. */
  onConnect(abort: (error?: Error) => void): void {
    if (this.#call.options.mayStart?.() === false) this.#endEarly(undefined);
    if (this.#isOver) {
      abort();
      return;
    }
    this.#abort = abort;
    this.#sentMs = this.#clock.monotonicMs();
  }

  onResponseStarted(): void {
    this.firstByteMs ??= this.#clock.monotonicMs() - this.#sentMs;
  }

  /** Also called for 1xx responses, any number of times; they are ignored. */
  onHeaders(status: number, raw: Buffer[]): boolean {
    if (status >= 200 && !this.#isOver) this.head = readHead(status, raw);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#isOver) return true;
    this.body ??= new BodyCapture();
    this.body.add(chunk);
    if (this.body.length > MAX_READ_BODY) this.#endEarly(undefined);
    return true;
  }

  onComplete(): void {
    if (this.head) this.#endAnswered(this.head, true);
  }

  onError(error: Error): void {
    if (this.#isOver) return;
    const isSent = this.#abort !== undefined;
    const head = this.head;
    const isCut = error instanceof ReceivedTooMuch;
    if (head && (isCut || !isSuccess(head.status))) this.#endAnswered(head, false);
    else this.#endFailed(failureOf(error, isSent));
  }

  /** Ended by us, not by the target: a known status counts. No failure means an abort. */
  #endEarly(failure: Failure | undefined): void {
    if (this.#isOver) return;
    if (this.head) this.#endAnswered(this.head, false);
    else if (failure) this.#endFailed(failure);
    else this.#end(ABORTED, null, false);
    this.cancelOpening?.();
    this.#abort?.();
  }

  #endAnswered(head: ResponseHead, isComplete: boolean): void {
    const elapsedMs = this.#clock.monotonicMs() - this.#startMs;
    this.#end(responseOutcome(head, this.#call.now + Math.round(elapsedMs)), null, isComplete);
  }

  #endFailed(failure: Failure): void {
    this.#end(failureOutcome(failure, this.#abort !== undefined), failure, false);
  }

  #end(outcome: Outcome, failure: Failure | null, isComplete: boolean): void {
    this.#isOver = true;
    this.#deadlines.remove(this);
    this.#stopListening?.();
    const durationMs = this.#clock.monotonicMs() - this.#startMs;
    this.#call.settle(resultOf(this, outcome, failure, isComplete, durationMs));
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}

// Attempt result: everything that is known after an attempt, with the field names of the attempt
// log. Every way in which a target, a network or a caller can end an attempt is such a value, never
// an exception.

export interface AttemptResult {
  /** For core's `decide`. */
  readonly outcome: Outcome;
  /** This process lacked something and sent nothing; null: it did not. */
  readonly shortage: Shortage | null;
  /** The stored body could not be read, so no complete request was sent. Default: it could. */
  readonly bodyFault?: BodyFault | undefined;
  /**
   * The status of the response, even if the response broke off later: of HTTP, or the number of the
   * gRPC code.
   */
  readonly status: number | null;
  readonly errorClass: FailureClass | null;
  /** Contains no addresses, no secrets and no text of the target. */
  readonly errorMessage: string | null;
  /** Allowlisted and redacted; null without a response. */
  readonly responseHeaders: Headers | null;
  /** At most 16 KiB, redacted; null without a body. */
  readonly responseBody: Uint8Array | null;
  /** The body was longer than the stored part, or broke off. */
  readonly truncated: boolean;
  /** The wait that the response asked for, clamped by core; null on success and without a hint. */
  readonly retryAfterMs: number | null;
  /** From dispatch to end, in whole ms. */
  readonly durationMs: number;
  /** Whole ms. A reused connection has no dns, connect and tls phase. */
  readonly phases: AttemptPhases;
  /** The request id that the target returned. */
  readonly targetRequestId: string | null;
}

const NO_PHASES: AttemptPhases = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };

/** The result of an attempt that ended before anything was sent. */
export function notStarted(outcome: Outcome, failure: Failure | null): AttemptResult {
  return {
    outcome,
    shortage: failure?.shortage ?? null,
    bodyFault: failure?.bodyFault,
    status: null,
    errorClass: failure?.errorClass ?? null,
    errorMessage: failure?.errorMessage ?? null,
    responseHeaders: null,
    responseBody: null,
    truncated: false,
    retryAfterMs: null,
    durationMs: 0,
    phases: NO_PHASES,
    targetRequestId: null,
  };
}

/** A failure, or a remark about a response, which has no class. */
export type ResultNote = Omit<Failure, "errorClass"> & {
  readonly errorClass: FailureClass | null;
};

/** What is known about an attempt while it runs. */
export interface AttemptProgress {
  readonly request: SecretRequest;
  readonly head: ResponseHead | undefined;
  readonly body: BodyCapture | undefined;
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

/** The result of an attempt that ends now. `isComplete`: the whole response was received. */
export function resultOf(
  progress: AttemptProgress,
  outcome: Outcome,
  failure: ResultNote | null,
  isComplete: boolean,
  durationMs: number,
): AttemptResult {
  const { head, body } = progress;
  const hasResponse = head !== undefined || body !== undefined;
  const variants = hasResponse ? secretVariants(secretsOf(progress.request)) : NONE;
  const headers = head ? redactHeaders(head.headers, variants) : null;
  return {
    outcome,
    shortage: failure?.shortage ?? null,
    bodyFault: failure?.bodyFault,
    status: head?.status ?? null,
    errorClass: failure?.errorClass ?? null,
    errorMessage: failure?.errorMessage ?? null,
    responseHeaders: headers,
    responseBody: body?.stored(variants, isComplete) ?? null,
    truncated: hasResponse && (!isComplete || (body?.length ?? 0) > MAX_STORED_BODY),
    retryAfterMs: outcome.retryAfterMs ?? null,
    durationMs: Math.round(durationMs),
    phases: phasesOf(progress),
    targetRequestId: headers ? requestIdOf(headers) : null,
  };
}

const NONE: readonly string[] = [];

function phasesOf(progress: AttemptProgress): AttemptPhases {
  return {
    dnsMs: rounded(progress.dnsMs),
    connectMs: rounded(progress.connectMs),
    tlsMs: rounded(progress.tlsMs),
    firstByteMs: rounded(progress.firstByteMs),
  };
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms);
}

/** The outcome of a response: its status, and its hint for the next attempt. */
function responseOutcome({ status, headers }: ResponseHead, now: number): Outcome {
  const outcome = statusOutcome(status);
  if (outcome.kind === "success") return outcome;
  const hint = headerHint((name) => headers[name], status, now);
  return hint === undefined ? outcome : { ...outcome, ...hint };
}

/** The outcome of a failure below HTTP. A denied or malformed request is not worth a retry. */
export function failureOutcome({ errorClass }: Failure, isSent: boolean): Outcome {
  switch (errorClass) {
    case "target-denied":
    case "invalid-request":
    case "secret-unavailable":
    case "body-unavailable":
      return { kind: "fault" };
    default:
      return { kind: "error", errorClass, sent: isSent };
  }
}

// Light signal: an abort signal for one attempt and one listener. A real `AbortController` with a
// listener costs more than half as much as an attempt. The engine may abort any of thousands of
// attempts but rarely does, so it uses these instead.

export interface LightSignal extends AbortSignalLike {
  /** Calls the listener, once. */
  abort(reason?: unknown): void;
}

export function createLightSignal(): LightSignal {
  return new OneListenerSignal();
}

class OneListenerSignal implements LightSignal {
  // Mutable state.
  aborted = false;
  reason: unknown = undefined;
  #listener: (() => void) | undefined;

  abort(reason?: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.#listener?.();
  }

  /** A new listener replaces the previous one. */
  addEventListener(_type: "abort", listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }
}

/** Calls the listener at the abort of a signal, once. */
export function onAbort(signal: AbortSignalLike, listener: () => void): Cancel {
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}
