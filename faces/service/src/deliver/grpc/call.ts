/**
 * Call: one unary gRPC call, from the wait for a connection to its result. It ends once, at the first of
 * these: a status of the target, an error, the deadline, the caller's abort, or a response above the read
 * limit. A connection whose call did not end by itself gets no more calls.
 */
import { type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from "node:http2";
import type { Cancel, Clock, Outcome } from "@redrive/core";
import type { DeadlineTimer, TimerEntry } from "../../time/deadline-timer.ts";
import type { BodyStream, GrpcAttemptCall } from "../attempt.ts";
import {
  type AttemptProgress,
  failureOutcome,
  type ResultNote,
  resultOf,
} from "../attempt-result.ts";
import { type Failure, failureOf, timeoutFailure } from "../failure.ts";
import { onAbort } from "../light-signal.ts";
import type { SecretRequest } from "../redact.ts";
import type { BodyCapture, ResponseHead } from "../response.ts";
import { framedMessage, messagePrefix } from "./message.ts";
import { callHeaders } from "./metadata.ts";
import { GrpcResponse } from "./response.ts";
import type { GrpcSession } from "./session.ts";
import type { SessionUser } from "./session-pool.ts";
import { protocolFailure, streamFailure } from "./stream-failure.ts";

/** The arguments with which Node reports headers. */
type RawHeaders = [headers: unknown, flags: unknown, raw: readonly string[]];

/** Responses with a status of 1xx before the final one. Each costs time, and none is needed. */
const MAX_INTERIM = 100;

const ABORTED: Outcome = { kind: "aborted" };

export class GrpcCall implements TimerEntry, SessionUser, AttemptProgress {
  readonly #clock: Clock;
  readonly #deadlines: DeadlineTimer;
  readonly #call: GrpcAttemptCall;
  readonly #startMs: number;
  readonly #stopListening: Cancel | undefined;
  readonly request: SecretRequest;
  readonly tenantId: string;
  readonly deadlineMs: number;
  readonly connectTimeoutMs: number;
  readonly connectDeadlineMs: number;

  // Mutable state: the progress of the call.
  slot = -1;
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  firstByteMs: number | null = null;
  cancelOpening: Cancel | undefined;
  head: ResponseHead | undefined;
  #isOver = false;
  #session: GrpcSession | undefined;
  /** Undefined until bytes may have been sent. */
  #stream: ClientHttp2Stream | undefined;
  #sentMs = 0;
  readonly #response = new GrpcResponse();

  constructor(clock: Clock, deadlines: DeadlineTimer, call: GrpcAttemptCall) {
    const { attemptTimeoutMs, connectTimeoutMs, signal } = call.options;
    this.#clock = clock;
    this.#deadlines = deadlines;
    this.#call = call;
    this.request = call.request;
    this.tenantId = call.request.tenantId ?? "";
    this.#startMs = clock.monotonicMs();
    this.deadlineMs = this.#startMs + attemptTimeoutMs;
    this.connectTimeoutMs = Math.min(connectTimeoutMs, attemptTimeoutMs);
    this.connectDeadlineMs = this.#startMs + this.connectTimeoutMs;
    deadlines.add(this);
    this.#stopListening = signal && onAbort(signal, () => this.#endEarly(undefined));
  }

  get body(): BodyCapture | undefined {
    return this.#response.body;
  }

  /** Called when the deadline has passed. */
  expire(): void {
    this.#endEarly(timeoutFailure(this.#call.options.attemptTimeoutMs));
  }

  onNoSession(error: Error): void {
    if (!this.#isOver) this.#endFailed(failureOf(error, false, "HTTP/2"), false);
  }

  onSession(session: GrpcSession): void {
    this.cancelOpening = undefined;
    if (this.#isOver) return;
    if (this.#call.options.mayStart?.() === false) this.#endEarly(undefined);
    else this.#send(session);
  }

  #send(session: GrpcSession): void {
    const { target, headers, request } = this.#call;
    this.#sentMs = this.#clock.monotonicMs();
    const leftMs = this.deadlineMs - this.#sentMs;
    const stream = this.#start(
      session,
      callHeaders(target, headers, request.attemptNumber, leftMs),
    );
    if (stream === undefined) return;
    this.#session = session;
    this.#stream = stream;
    this.#listen(stream);
    if (request.stream === undefined) stream.end(framedMessage(request.body));
    else this.#sendLong(stream, request.stream);
  }

  /** Undefined: the call has failed, because the connection was lost meanwhile or a header is invalid. */
  #start(session: GrpcSession, headers: OutgoingHttpHeaders): ClientHttp2Stream | undefined {
    try {
      return session.request(headers);
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      const isLost = /^ERR_HTTP2_(GOAWAY_SESSION|INVALID_SESSION)$/.test(code);
      if (isLost) this.#endFailed(failureOf(error as Error, false, "HTTP/2"), false);
      else this.#endFailed({ errorClass: "invalid-request", errorMessage: code }, false);
      return undefined;
    }
  }

  #sendLong(stream: ClientHttp2Stream, { stream: body, length }: BodyStream): void {
    stream.write(messagePrefix(length));
    body.on("error", (error) => {
      if (this.#isOver) return;
      this.#endFailed(failureOf(error, true, "HTTP/2"), true);
      this.#reset();
    });
    body.pipe(stream);
  }

  #listen(stream: ClientHttp2Stream): void {
    let failed: Error | undefined;
    let interim = 0;
    stream.on("headers", () => {
      this.#onFirstByte();
      interim++;
      if (interim > MAX_INTERIM && !this.#isOver) this.#endInterim();
    });
    // The third argument holds alternating names and values. Node's types do not mention it.
    stream.on("response", (...[, , raw]: RawHeaders) => {
      this.#onFirstByte();
      this.#take(this.#response.addHeaders(raw));
    });
    stream.on("data", (chunk: Buffer) => this.#take(this.#response.addData(chunk)));
    stream.on("trailers", (...[, , raw]: RawHeaders) => {
      this.#take(this.#response.addTrailers(raw));
    });
    // The trailers may be reported before the last data, so the response ends here.
    stream.on("end", () => {
      if (!this.#isOver && this.#response.isKnown()) this.#endAnswered();
    });
    stream.on("error", (error) => {
      failed = error;
    });
    stream.on("close", () => this.#onClose(stream, failed));
  }

  #endInterim(): void {
    this.#endFailed(protocolFailure("too many interim responses"), true);
    this.#reset();
  }

  #onFirstByte(): void {
    this.firstByteMs ??= this.#clock.monotonicMs() - this.#sentMs;
  }

  /** `isWithinLimits`: of the response so far. */
  #take(isWithinLimits: boolean): void {
    if (!isWithinLimits && !this.#isOver) this.#endTooLong();
  }

  #onClose(stream: ClientHttp2Stream, error: Error | undefined): void {
    const session = this.#session;
    if (this.#isOver || session === undefined) return;
    const { rstCode: resetCode, id = 0 } = stream;
    if (this.#response.isKnown()) this.#endAnswered();
    else if (error === undefined && resetCode === constants.NGHTTP2_NO_ERROR) {
      this.#endFailed(this.#response.problem(), true);
    } else {
      const isRefused = resetCode === constants.NGHTTP2_REFUSED_STREAM;
      const isUnprocessed = isRefused || session.isUnprocessed(id);
      const { hasSpokenHttp2 } = session;
      const failure = streamFailure({ error, resetCode, isUnprocessed, hasSpokenHttp2 });
      this.#endFailed(failure, !isUnprocessed);
    }
  }

  /** Ended by us, not by the target. No failure means an abort. */
  #endEarly(failure: Failure | undefined): void {
    if (this.#isOver) return;
    if (this.#response.isKnown()) this.#endAnswered();
    else if (failure) this.#endFailed(failure, this.#stream !== undefined);
    else this.#end(ABORTED, null, false);
    this.cancelOpening?.();
    this.#reset();
  }

  #endTooLong(): void {
    const { tooLong } = this.#response;
    if (tooLong === "headers") this.#endFailed(protocolFailure("its headers are too long"), true);
    else this.#endAnswered();
    this.#reset();
  }

  #endAnswered(): void {
    const now = this.#call.now + Math.round(this.#clock.monotonicMs() - this.#startMs);
    const answer = this.#response.answer(now, this.#leftShare());
    if (answer === undefined) {
      this.#endFailed(this.#response.problem(), true);
      return;
    }
    this.head = answer.head;
    this.#end(answer.outcome, answer.note, this.#response.isComplete());
  }

  /** The part of the attempt's time that is left, from 0 to 1. */
  #leftShare(): number {
    const leftMs = this.deadlineMs - this.#clock.monotonicMs();
    return leftMs / this.#call.options.attemptTimeoutMs;
  }

  #endFailed(failure: Failure, isSent: boolean): void {
    this.#end(failureOutcome(failure, isSent), failure, false);
  }

  #end(outcome: Outcome, note: ResultNote | null, isComplete: boolean): void {
    this.#isOver = true;
    this.#deadlines.remove(this);
    this.#stopListening?.();
    this.#call.request.stream?.stream.unpipe();
    const durationMs = this.#clock.monotonicMs() - this.#startMs;
    this.#call.settle(resultOf(this, outcome, note, isComplete, durationMs));
    // A target may respond before it has read the whole request.
    if (this.#stream?.writableEnded === false) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#session?.release();
  }

  /** Ends a stream that did not end by itself. */
  #reset(): void {
    this.#stream?.close(constants.NGHTTP2_CANCEL);
    this.#session?.retire();
  }
}
