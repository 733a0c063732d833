/**
 * Call: one unary gRPC call, from the wait for a connection to its result. It ends once, at the first of
 * these: a status of the target, an error, the deadline, the caller's abort, or a response above the read
 * limit. A connection whose call did not end by itself gets no more calls.
 */
import { type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from "node:http2";
import { ABORTED, type Outcome } from "@redrive/core";
import type { BodyStream } from "../attempt.ts";
import type { ResultNote } from "../attempt-result.ts";
import { type Failure, failureOf } from "../failure.ts";
import type { BodyCapture } from "../response.ts";
import { SessionCall } from "../sessions/session-call.ts";
import { framedMessage, messagePrefix } from "./message.ts";
import { callHeaders } from "./metadata.ts";
import { GrpcResponse } from "./response.ts";
import type { GrpcSession } from "./session.ts";
import { protocolFailure, streamFailure } from "./stream-failure.ts";

/** The arguments with which Node reports headers. */
type RawHeaders = [headers: unknown, flags: unknown, raw: readonly string[]];

/** Responses with a status of 1xx before the final one. Each costs time, and none is needed. */
const MAX_INTERIM = 100;

export class GrpcCall extends SessionCall<GrpcSession> {
  // Mutable state: the progress of the call.
  #session: GrpcSession | undefined;
  /** Undefined until bytes may have been sent. */
  #stream: ClientHttp2Stream | undefined;
  #sentMs = 0;
  readonly #response = new GrpcResponse();

  get body(): BodyCapture | undefined {
    return this.#response.body;
  }

  onNoSession(error: Error): void {
    if (!this.isOver) this.endFailed(failureOf(error, false, "HTTP/2"), false);
  }

  onSession(session: GrpcSession): void {
    this.cancelOpening = undefined;
    if (this.isOver) return;
    if (this.call.options.mayStart?.() === false) this.endEarly(undefined);
    else this.#send(session);
  }

  #send(session: GrpcSession): void {
    const { target, headers, request } = this.call;
    this.#sentMs = this.clock.monotonicMs();
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
      if (isLost) this.endFailed(failureOf(error as Error, false, "HTTP/2"), false);
      else this.endFailed({ errorClass: "invalid-request", errorMessage: code }, false);
      return undefined;
    }
  }

  #sendLong(stream: ClientHttp2Stream, { stream: body, length }: BodyStream): void {
    stream.write(messagePrefix(length));
    body.on("error", (error) => {
      if (this.isOver) return;
      this.endFailed(failureOf(error, true, "HTTP/2"), true);
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
      if (interim > MAX_INTERIM && !this.isOver) this.#endInterim();
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
      if (!this.isOver && this.#response.isKnown()) this.#endAnswered();
    });
    stream.on("error", (error) => {
      failed = error;
    });
    stream.on("close", () => this.#onClose(stream, failed));
  }

  #endInterim(): void {
    this.endFailed(protocolFailure("too many interim responses"), true);
    this.#reset();
  }

  #onFirstByte(): void {
    this.firstByteMs ??= this.clock.monotonicMs() - this.#sentMs;
  }

  /** `isWithinLimits`: of the response so far. */
  #take(isWithinLimits: boolean): void {
    if (!isWithinLimits && !this.isOver) this.#endTooLong();
  }

  #onClose(stream: ClientHttp2Stream, error: Error | undefined): void {
    const session = this.#session;
    if (this.isOver || session === undefined) return;
    const { rstCode: resetCode, id = 0 } = stream;
    if (this.#response.isKnown()) this.#endAnswered();
    else if (error === undefined && resetCode === constants.NGHTTP2_NO_ERROR) {
      this.endFailed(this.#response.problem(), true);
    } else {
      const isRefused = resetCode === constants.NGHTTP2_REFUSED_STREAM;
      const isUnprocessed = isRefused || session.isUnprocessed(id);
      const { hasSpokenHttp2 } = session;
      const failure = streamFailure({ error, resetCode, isUnprocessed, hasSpokenHttp2 });
      this.endFailed(failure, !isUnprocessed);
    }
  }

  protected endEarly(failure: Failure | undefined): void {
    if (this.isOver) return;
    if (this.#response.isKnown()) this.#endAnswered();
    else if (failure) this.endFailed(failure, this.#stream !== undefined);
    else this.end(ABORTED, null, false);
    this.cancelOpening?.();
    this.#reset();
  }

  #endTooLong(): void {
    const { tooLong } = this.#response;
    if (tooLong === "headers") this.endFailed(protocolFailure("its headers are too long"), true);
    else this.#endAnswered();
    this.#reset();
  }

  #endAnswered(): void {
    const now = this.call.now + Math.round(this.clock.monotonicMs() - this.startMs);
    const answer = this.#response.answer(now, this.#leftShare());
    if (answer === undefined) {
      this.endFailed(this.#response.problem(), true);
      return;
    }
    this.head = answer.head;
    this.end(answer.outcome, answer.note, this.#response.isComplete());
  }

  /** The part of the attempt's time that is left, from 0 to 1. */
  #leftShare(): number {
    const leftMs = this.deadlineMs - this.clock.monotonicMs();
    return leftMs / this.call.options.attemptTimeoutMs;
  }

  protected override end(outcome: Outcome, note: ResultNote | null, isComplete: boolean): void {
    this.call.request.stream?.stream.unpipe();
    super.end(outcome, note, isComplete);
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
