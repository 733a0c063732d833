/** gRPC: sends the attempts of gRPC targets over shared connections of HTTP/2. */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
  sensitiveHeaders,
} from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import {
  ABORTED,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
  headerHint,
  type Outcome,
  parsePushback,
  recordedOutcome,
} from "@redrive/core";
import { isHarmlessHeader } from "../model/task.ts";
import type { BodyStream, ResultNote, SessionAttemptCall } from "./attempt.ts";
import type { Sender, SenderParts } from "./deliverer.ts";
import { type Failure, failureOf, messageFor, NO_ALPN } from "./failure.ts";
import { BodyCapture, MAX_READ_BODY, type ResponseHead, storeHeader } from "./response.ts";
import {
  MAX_CALLS,
  type OpenSession,
  type Session,
  SessionCall,
  type SessionOwner,
  type SessionPlace,
  SessionPool,
} from "./session-pool.ts";
import type { Target } from "./target.ts";

export function createGrpcSender(parts: SenderParts): Sender {
  const { clock, deadlines, connector } = parts;
  const pool = new SessionPool(clock, connector, openSession(parts));
  return {
    send(call: SessionAttemptCall) {
      const attempt = new GrpcCall(clock, deadlines, call);
      attempt.cancelOpening = pool.acquire(placeOf(call), attempt);
    },
    close: () => pool.close(),
  };
}

function placeOf({ endpoint }: SessionAttemptCall): SessionPlace {
  const { name, port, isTls } = endpoint;
  return { key: `${isTls ? "grpcs" : "grpc"}://${name}:${port}`, endpoint };
}

function openSession({ clock, connector }: SenderParts): OpenSession<SessionPlace, GrpcSession> {
  return async (place, opener, owner) => {
    const socket = await connector.open(place.endpoint, opener);
    if (place.endpoint.isTls && (socket as TLSSocket).alpnProtocol !== "h2") {
      socket.destroy();
      throw noHttp2();
    }
    return new GrpcSession(socket, place, clock.monotonicMs(), owner);
  };
}

/** The target completed the handshake without the choice of a protocol. */
function noHttp2(): Error {
  return Object.assign(new Error("no HTTP/2"), { code: NO_ALPN });
}

// Call: one unary gRPC call, from the wait for a connection to its result. It ends once, at the
// first of these: a status of the target, an error, the deadline, the caller's abort, or a response
// above the read limit. A connection whose call did not end by itself gets no more calls.

/** The arguments with which Node reports headers. */
type RawHeaders = [headers: unknown, flags: unknown, raw: readonly string[]];

/** Responses with a status of 1xx before the final one. Each costs time, and none is needed. */
const MAX_INTERIM = 100;

class GrpcCall extends SessionCall<GrpcSession> {
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

// Session: one connection of HTTP/2 to a gRPC server, shared by the calls of several tasks. It is
// retired when it must get no more calls: the target or this side ended it, or one of its calls did
// not end by itself. A retired session is closed when its last call ends.

/** Bytes of a response that are read. The clients of gRPC have the same default. */
export const MAX_RESPONSE_BYTES = 4 << 20;

/** Bytes of headers or trailers of one response, as for HTTP/1.1. */
const MAX_HEADER_BYTES = 16_384;

/** The bytes that a target may send: these at any time, and those of a full response per running call. */
const FREE_BYTES = 65_536;
const BYTES_PER_CALL = MAX_RESPONSE_BYTES + 4 * MAX_HEADER_BYTES;

const OPTIONS = {
  maxHeaderListPairs: 256,
  maxSettings: 32,
  peerMaxConcurrentStreams: MAX_CALLS,
  settings: { enablePush: false, maxHeaderListSize: MAX_HEADER_BYTES },
};

class GrpcSession implements Session {
  readonly place: SessionPlace;
  readonly #socket: Socket;
  readonly #http2: ClientHttp2Session;
  readonly #owner: SessionOwner<GrpcSession>;
  readonly address: string | undefined;
  readonly openedMs: number;

  // Mutable state.
  calls = 0;
  /** The number of received bytes at which the connection is closed. */
  #maxReceived = FREE_BYTES;
  isRetired = false;
  hasSpokenHttp2 = false;
  /** Calls with a larger id were not processed. */
  #lastStreamId = Number.POSITIVE_INFINITY;

  constructor(
    socket: Socket,
    place: SessionPlace,
    openedMs: number,
    owner: SessionOwner<GrpcSession>,
  ) {
    this.place = place;
    this.openedMs = openedMs;
    this.#socket = socket;
    this.#owner = owner;
    this.address = socket.remoteAddress;
    const scheme = place.endpoint.isTls ? "https" : "http";
    this.#http2 = connect(`${scheme}://target`, { ...OPTIONS, createConnection: () => socket });
    this.#listen();
  }

  #listen(): void {
    const http2 = this.#http2;
    // Every call gets the error too.
    http2.on("error", () => this.retire());
    http2.on("goaway", (_code, lastStreamId) => {
      this.#lastStreamId = lastStreamId;
      this.retire();
    });
    http2.on("close", () => this.#onClose());
    http2.on("remoteSettings", () => {
      this.hasSpokenHttp2 = true;
      this.check();
    });
    http2.on("ping", () => this.check());
  }

  /** The calls that fit. A target that allows none gets one call, which ends at its deadline. */
  hasRoom(): boolean {
    const { closed, destroyed } = this.#http2;
    if (this.isRetired || closed || destroyed) return false;
    const allowed = this.#http2.remoteSettings?.maxConcurrentStreams ?? MAX_CALLS;
    return this.calls < Math.max(1, Math.min(allowed, MAX_CALLS));
  }

  /** Starts a call; throws if that is not possible. Call `release` when the call has ended. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#http2.request(headers, { endStream: false });
    this.calls++;
    this.#allow();
    this.#http2.ref();
    return stream;
  }

  release(): void {
    this.calls--;
    this.#allow();
    if (this.calls > 0) return;
    if (this.isRetired) {
      this.destroy();
      return;
    }
    // An idle connection does not keep the process alive.
    this.#http2.unref();
    this.#owner.onIdle(this);
  }

  isUnprocessed(streamId: number): boolean {
    return streamId > this.#lastStreamId;
  }

  retire(): void {
    this.isRetired = true;
    if (this.calls === 0) this.destroy();
  }

  /** Closes the connection of a target that sends more than its calls can need. */
  check(): void {
    if (this.#socket.bytesRead > this.#maxReceived) this.destroy();
  }

  #allow(): void {
    this.#maxReceived = this.#socket.bytesRead + FREE_BYTES + this.calls * BYTES_PER_CALL;
  }

  /** Closes the connection now; its calls fail. */
  destroy(): void {
    this.isRetired = true;
    this.#http2.destroy();
  }

  #onClose(): void {
    this.isRetired = true;
    this.#socket.destroy();
    this.#owner.onClosed(this);
  }
}

// Response: what a gRPC target has sent so far, and the answer that it amounts to. The code is in
// the trailers, in the headers of a response without a body, or nowhere; then it follows from the
// HTTP status.

interface Answer {
  /** The status is the number of the code. */
  readonly head: ResponseHead;
  readonly outcome: Outcome;
  /** Why the code is not the target's own; null: it is. */
  readonly note: ResultNote | null;
}

const OK = 200;

/**
 * In the last part of the attempt's time, DEADLINE_EXCEEDED is a reply to the deadline that was sent with
 * the call. Both sides measure the same time, and either may be first.
 */
const DEADLINE_SHARE = 0.05;

class GrpcResponse {
  // Mutable state.
  #status: number | undefined;
  #isGrpc = false;
  readonly #headers: Record<string, string> = {};
  /** The values that matter, not joined and not cut. */
  readonly #hints = new Map<string, string[]>();
  readonly #message = new MessageReader();
  #raw: BodyCapture | undefined;
  /** The part that is above its limit. */
  tooLong: "headers" | "body" | undefined;

  /** The start of the message, or of the body of a response that is not gRPC. */
  get body(): BodyCapture | undefined {
    return this.#isGrpc ? this.#message.body : this.#raw;
  }

  /** Each returns false if the response is too long. */
  addHeaders(raw: readonly string[]): boolean {
    this.#status = Number(valuesOf(raw, ":status")[0]);
    this.#isGrpc = /^application\/grpc\b/i.test(valuesOf(raw, "content-type")[0] ?? "");
    return this.#add(raw);
  }

  addTrailers(raw: readonly string[]): boolean {
    // The code in the trailers is the one that counts.
    if (valuesOf(raw, "grpc-status").length > 0) {
      this.#hints.delete("grpc-status");
      delete this.#headers["grpc-status"];
    }
    return this.#add(raw);
  }

  addData(chunk: Buffer): boolean {
    const isShort = this.#isGrpc ? this.#message.add(chunk) : this.#addRaw(chunk);
    if (!isShort) this.tooLong = "body";
    return isShort;
  }

  /** The answer is certain, whatever follows. */
  isKnown(): boolean {
    return this.#status !== undefined && (this.#status !== OK || this.#hints.has("grpc-status"));
  }

  isComplete(): boolean {
    return this.tooLong === undefined && (!this.#isGrpc || this.#message.isComplete());
  }

  /**
   * Undefined: the response is not gRPC. `now`: epoch ms. `leftShare`: the part of the attempt's time
   * that is left.
   */
  answer(now: number, leftShare: number): Answer | undefined {
    const [given] = this.#hints.get("grpc-status") ?? [];
    if (given !== undefined) return this.#answerOf(given, leftShare);
    if (this.tooLong === "body" && this.#isGrpc) return this.#tooLongAnswer();
    if (this.#status === undefined || this.#status === OK) return undefined;
    const code = codeOfHttpStatus(this.#status);
    const hint = headerHint(
      (name) => this.#hints.get(name)?.join() ?? this.#headers[name],
      this.#status,
      now,
    );
    return this.#answer(
      code,
      { ...codeOutcome(code, []), ...hint },
      {
        errorClass: null,
        errorMessage: `the target responded with HTTP status ${this.#status} and no grpc-status`,
      },
    );
  }

  /** Why a response without an answer is not valid. */
  problem(): Failure {
    if (this.#status === undefined) return invalidGrpc("it has no headers");
    return invalidGrpc(this.#isGrpc ? "it has no grpc-status" : "its content type is not gRPC");
  }

  #answerOf(given: string, leftShare: number): Answer {
    // Several codes contradict each other.
    const isOne = this.#hints.get("grpc-status")?.length === 1;
    const code = isOne ? readGrpcStatus(given) : "UNKNOWN";
    if (code === "DEADLINE_EXCEEDED" && leftShare <= DEADLINE_SHARE) {
      const outcome = { kind: "error", errorClass: "timeout", sent: true } as const;
      const errorMessage = "the target reports that the time of the attempt is over";
      return this.#answer(code, outcome, { errorClass: "timeout", errorMessage });
    }
    const pushback = this.#hints.get("grpc-retry-pushback-ms") ?? [];
    return this.#answer(code, codeOutcome(code, pushback), null);
  }

  /** The same response would be too long at the next attempt, so there is none. */
  #tooLongAnswer(): Answer {
    const code = "RESOURCE_EXHAUSTED";
    return this.#answer(
      code,
      { kind: "grpc", code, verdict: "terminal" },
      { errorClass: null, errorMessage: "the target's response is longer than 4 MiB" },
    );
  }

  #answer(code: GrpcCode, outcome: Outcome, note: ResultNote | null): Answer {
    const head = { status: numberOf(code), headers: this.#headers };
    return { head, outcome, note };
  }

  #addRaw(chunk: Buffer): boolean {
    this.#raw ??= new BodyCapture();
    this.#raw.add(chunk);
    return this.#raw.length <= MAX_READ_BODY;
  }

  #add(raw: readonly string[]): boolean {
    let bytes = 0;
    for (let index = 0; index + 1 < raw.length; index += 2) {
      const [name = "", value = ""] = [raw[index], raw[index + 1]];
      bytes += name.length + value.length;
      if (HINTS.has(name)) this.#hints.set(name, [...(this.#hints.get(name) ?? []), value]);
      storeHeader(this.#headers, name, name === "grpc-message" ? decoded(value) : value);
    }
    if (bytes > MAX_HEADER_BYTES) this.tooLong = "headers";
    return bytes <= MAX_HEADER_BYTES;
  }
}

const HINTS = new Set(["grpc-status", "grpc-retry-pushback-ms", "retry-after"]);

function valuesOf(raw: readonly string[], name: string): readonly string[] {
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1] === name);
}

/** Decoded before it is stored, so that a secret in it is found. Invalid text stays as it is. */
function decoded(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}

// Status: the gRPC code of a response, and its outcome for core. A response without a code gets one
// from its HTTP status, as in every gRPC client
// (https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md).

const OF_HTTP_STATUS: ReadonlyMap<number, GrpcCode> = new Map([
  [400, "INTERNAL"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "UNIMPLEMENTED"],
  [429, "UNAVAILABLE"],
  [502, "UNAVAILABLE"],
  [503, "UNAVAILABLE"],
  [504, "UNAVAILABLE"],
]);

/** The code of an HTTP response that has none. */
function codeOfHttpStatus(status: number): GrpcCode {
  return OF_HTTP_STATUS.get(status) ?? "UNKNOWN";
}

/** The code in a `grpc-status`. A value that is not the number of a code is UNKNOWN. */
function readGrpcStatus(text: string): GrpcCode {
  return (/^\d{1,2}$/.test(text) && GRPC_CODES[Number(text)]) || "UNKNOWN";
}

function numberOf(code: GrpcCode): number {
  return GRPC_CODES.indexOf(code);
}

/** The outcome of a code, with all `grpc-retry-pushback-ms` of the response. */
function codeOutcome(code: GrpcCode, pushback: readonly string[]): Outcome {
  const outcome = recordedOutcome(numberOf(code));
  const hint = pushback.length === 0 ? undefined : parsePushback(pushback.join());
  if (hint === undefined || outcome.kind === "success") return outcome;
  return hint === "refused" ? { ...outcome, refused: true } : { ...outcome, retryAfterMs: hint };
}

// Stream failure: why a gRPC call ended without a response, as one of core's classes and as a
// message for the attempt log.

/** How a stream of HTTP/2 ended. */
interface StreamEnd {
  /** Undefined: it was closed without an error. */
  readonly error: Error | undefined;
  /** The code with which one side reset it. */
  readonly resetCode: number;
  /** The target says that it has not processed the call (REFUSED_STREAM, or a GOAWAY before it). */
  readonly isUnprocessed: boolean;
  /** The target has sent the settings with which every connection of HTTP/2 begins. */
  readonly hasSpokenHttp2: boolean;
}

/** The failures that are not `reset`. */
const CLASSES: ReadonlyMap<number, ErrorClass> = new Map([
  [constants.NGHTTP2_PROTOCOL_ERROR, "protocol"],
  [constants.NGHTTP2_FLOW_CONTROL_ERROR, "protocol"],
  [constants.NGHTTP2_FRAME_SIZE_ERROR, "protocol"],
  [constants.NGHTTP2_COMPRESSION_ERROR, "protocol"],
  [constants.NGHTTP2_ENHANCE_YOUR_CALM, "protocol"],
  [constants.NGHTTP2_HTTP_1_1_REQUIRED, "protocol"],
  [constants.NGHTTP2_INADEQUATE_SECURITY, "tls"],
]);

/** The codes of RFC 9113, section 7, at the index of their number. */
const NAMES = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
  "CONNECT_ERROR",
  "ENHANCE_YOUR_CALM",
  "INADEQUATE_SECURITY",
  "HTTP_1_1_REQUIRED",
];

/** The failure of a call that was sent. */
function streamFailure(end: StreamEnd): Failure {
  const { error, resetCode, isUnprocessed, hasSpokenHttp2 } = end;
  const { code = "" } = (error ?? {}) as NodeJS.ErrnoException;
  // An error of the socket says more than the code with which Node closes its streams.
  if (error !== undefined && !code.startsWith("ERR_HTTP2")) return failureOf(error, true, "HTTP/2");
  if (isUnprocessed) return { errorClass: "reset", errorMessage: UNPROCESSED };
  if (code === "ERR_HTTP2_ERROR" || !hasSpokenHttp2) return protocolFailure("");
  const errorClass = CLASSES.get(resetCode) ?? "reset";
  // Node closes the streams of a lost connection with this code.
  const isLost = error === undefined && resetCode === constants.NGHTTP2_CANCEL;
  const name = isLost ? "" : (NAMES[resetCode] ?? String(resetCode));
  return { errorClass, errorMessage: messageFor(errorClass, name, "HTTP/2") };
}

/** The target's response violates HTTP/2. */
function protocolFailure(reason: string): Failure {
  return { errorClass: "protocol", errorMessage: messageFor("protocol", reason, "HTTP/2") };
}

/** The target's response is HTTP/2, but not gRPC. */
function invalidGrpc(reason: string): Failure {
  const errorMessage = `${messageFor("protocol", "", "gRPC")}: ${reason}`;
  return { errorClass: "protocol", errorMessage };
}

const UNPROCESSED = "the target refused the call before it processed it";

// Metadata: the headers of a gRPC call over HTTP/2, made of the headers that any attempt sends. The
// metadata of a task was checked when the task was created.

const CONTENT_TYPE = "application/grpc+proto";

/** `flat`: alternating names and values. `timeoutMs`: the time that the attempt has left. */
function callHeaders(
  { origin, path, grpc }: Target,
  flat: readonly string[],
  attemptNumber: number,
  timeoutMs: number,
): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {
    ":method": "POST",
    ":scheme": grpc?.isTls ? "https" : "http",
    ":authority": origin.slice(origin.indexOf("//") + 2),
    ":path": path,
    te: "trailers",
    "content-type": CONTENT_TYPE,
    // Rounded up, so that the target does not end the call before this side does.
    "grpc-timeout": `${Math.max(1, Math.ceil(timeoutMs))}m`,
  };
  if (attemptNumber > 1) headers["grpc-previous-rpc-attempts"] = String(attemptNumber - 1);
  const secret: string[] = [];
  for (let index = 0; index + 1 < flat.length; index += 2) {
    const name = (flat[index] ?? "").toLowerCase();
    if (name === "accept-encoding") continue;
    headers[name] = flat[index + 1];
    if (!isHarmlessHeader(name)) secret.push(name);
  }
  // HPACK does not put these values into its tables.
  return Object.assign(headers, { [sensitiveHeaders]: secret });
}

// Message: how gRPC puts messages into a stream of bytes. Each message has a prefix of 5 bytes: a
// flag that says whether it is compressed, and its length. Nothing is compressed or decompressed
// here.

const PREFIX_BYTES = 5;

/** The prefix of a message of that length, which is not compressed. */
export function messagePrefix(length: number): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(length, 1);
  return prefix;
}

/** A message with its prefix. No body is an empty message. */
export function framedMessage(body: Uint8Array | null): Buffer {
  const bytes = body ?? NO_BYTES;
  return Buffer.concat([messagePrefix(bytes.length), bytes]);
}

const NO_BYTES = new Uint8Array(0);

/** Reads the first message of a response, and counts the bytes of all. */
export class MessageReader {
  readonly #prefix = Buffer.alloc(PREFIX_BYTES);

  // Mutable state.
  #received = 0;
  /** The start of the message without its prefix; undefined until the prefix is complete. */
  body: BodyCapture | undefined;

  /** False: the response is longer than the limit, or says that its message will be. */
  add(chunk: Buffer): boolean {
    const inPrefix = Math.max(0, PREFIX_BYTES - this.#received);
    if (inPrefix > 0) chunk.copy(this.#prefix, this.#received, 0, inPrefix);
    this.#received += chunk.length;
    if (this.#received < PREFIX_BYTES) return true;
    this.body ??= new BodyCapture();
    const left = this.#messageLength() - this.body.length;
    if (left > 0 && chunk.length > inPrefix)
      this.body.add(chunk.subarray(inPrefix, inPrefix + left));
    return Math.max(this.#received, this.#messageLength() + PREFIX_BYTES) <= MAX_RESPONSE_BYTES;
  }

  /** The whole message was received. A response without a message is complete too. */
  isComplete(): boolean {
    if (this.body === undefined) return this.#received === 0;
    return this.body.length === this.#messageLength();
  }

  #messageLength(): number {
    return this.#prefix.readUInt32BE(1);
  }
}
