/**
 * Failure: what went wrong below HTTP, in core's classes and in words for the attempt's log. The
 * words are our own: those of Node name the address that was tried, which is not the caller's to
 * know.
 */
import { classifyError, type ErrorClass } from "@redrive/core";
import { deniedText } from "./address-guard/target.ts";

/** Core's classes, and the two failures that are nobody's on the network. */
export type FailureClass = ErrorClass | "target-denied" | "invalid-request" | "secret-unavailable";

export interface Failure {
  readonly errorClass: FailureClass;
  readonly errorMessage: string;
}

/** The target policy forbids an address that the name stands for. */
export class TargetDenied extends Error {
  override readonly name = "TargetDenied";

  constructor(host: string) {
    super(deniedText(host));
  }
}

/** The name was looked up in vain. */
export class LookupFailed extends Error {
  override readonly name = "LookupFailed";
  readonly code: string;

  constructor(code: "EMPTY_ANSWER" | "LOOKUP_TIMEOUT") {
    super(TEXTS.dns);
    this.code = code;
  }
}

/** No socket in time. The code is undici's own, so that core knows its class. */
export class ConnectTimeout extends Error {
  override readonly name = "ConnectTimeout";
  readonly code = "UND_ERR_CONNECT_TIMEOUT";
}

const TEXTS: Readonly<Record<ErrorClass, string>> = {
  timeout: "no complete answer in time",
  connect: "no connection to the target",
  reset: "the target closed the connection before its answer was complete",
  dns: "the target's name could not be looked up",
  tls: "no secure connection to the target",
  protocol: "the target's answer is not legal HTTP/1.1",
};

/** Where the code alone would leave the reader guessing. */
const HINTS: Readonly<Record<string, string>> = {
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: "it offers no HTTP/1.1",
  ERR_SSL_WRONG_VERSION_NUMBER: "it speaks no TLS on this port",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  CERT_HAS_EXPIRED: "its certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is signed by itself",
};

/** The failure that an error of undici, Node or the connector stands for. */
export function failureOf(error: Error, isSent: boolean): Failure {
  if (error instanceof TargetDenied) {
    return { errorClass: "target-denied", errorMessage: error.message };
  }
  const code = codeOf(error);
  if (code === "UND_ERR_INVALID_ARG" || code === "UND_ERR_NOT_SUPPORTED") {
    return { errorClass: "invalid-request", errorMessage: error.message };
  }
  const errorClass = classOf(error, code, isSent);
  return { errorClass, errorMessage: messageFor(errorClass, code || parserReason(error)) };
}

/** The failure of an attempt whose deadline passed. */
export function timeoutFailure(timeoutMs: number): Failure {
  return { errorClass: "timeout", errorMessage: `${TEXTS.timeout} (${timeoutMs} ms)` };
}

function classOf(error: Error, code: string, isSent: boolean): ErrorClass {
  if (error instanceof LookupFailed || /^(EAI_|ENODATA|ESERVFAIL)/.test(code)) return "dns";
  if (isSent && isBrokenProtocol(error, code)) return "protocol";
  const outcome = classifyError(error);
  const known = outcome.kind === "error" ? outcome.errorClass : "reset";
  if (isSent || known === "dns" || known === "tls") return known;
  return "connect";
}

/**
 * What undici says when an answer breaks the rules: its parser, its assertions (status 000), its
 * bounds, and `bad response` or `bad upgrade` for what nobody asked for.
 */
function isBrokenProtocol(error: Error, code: string): boolean {
  if (code === "UND_ERR_SOCKET") return error.message.startsWith("bad ");
  // It means to have a code, and has none in undici 7.30.
  if (error.name === "HTTPParserError") return true;
  return /^(HPE_|ERR_ASSERTION|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_)/.test(code);
}

function messageFor(errorClass: ErrorClass, code: string): string {
  const text = TEXTS[errorClass];
  if (code === "" || code.startsWith("UND_ERR_SOCKET")) return text;
  const hint = Object.hasOwn(HINTS, code) ? `: ${HINTS[code]}` : "";
  return `${text}${hint} (${code})`;
}

/** What undici's parser missed, in its own words; they repeat nothing of what the target sent. */
function parserReason(error: Error): string {
  return error.name === "HTTPParserError" ? (/\(([^)]*)\)$/.exec(error.message)?.[1] ?? "") : "";
}

function codeOf(error: Error): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}
