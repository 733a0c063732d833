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
  type Outcome,
} from "@redrive/core";
import type { Dispatcher } from "undici";
import type { DeadlineTimer, TimerEntry } from "../time/deadline-timer.ts";
import {
  type AttemptProgress,
  type AttemptResult,
  failureOutcome,
  responseOutcome,
  resultOf,
} from "./attempt-result.ts";
import { type Opener, ReceivedTooMuch, type SocketEndpoint } from "./connector.ts";
import { type Failure, failureOf, timeoutFailure } from "./failure.ts";
import { onAbort } from "./light-signal.ts";
import type { SecretRequest } from "./redact.ts";
import { BodyCapture, MAX_READ_BODY, type ResponseHead, readHead } from "./response.ts";
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
