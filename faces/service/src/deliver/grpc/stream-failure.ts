/**
 * Stream failure: why a gRPC call ended without a response, as one of core's classes and as a message
 * for the attempt log.
 */
import { constants } from "node:http2";
import type { ErrorClass } from "@redrive/core";
import { type Failure, failureOf, messageFor } from "../failure.ts";

/** How a stream of HTTP/2 ended. */
export interface StreamEnd {
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
export function streamFailure(end: StreamEnd): Failure {
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
export function protocolFailure(reason: string): Failure {
  return { errorClass: "protocol", errorMessage: messageFor("protocol", reason, "HTTP/2") };
}

/** The target's response is HTTP/2, but not gRPC. */
export function invalidGrpc(reason: string): Failure {
  const errorMessage = `${messageFor("protocol", "", "gRPC")}: ${reason}`;
  return { errorClass: "protocol", errorMessage };
}

const UNPROCESSED = "the target refused the call before it processed it";
