/**
 * Failure: what went wrong below HTTP, as one of core's classes and as a message for the attempt
 * log. The messages are our own: Node's contain the address that was tried, which the caller must
 * not learn.
 */
import { closeSync, openSync, readFileSync } from "node:fs";
import { devNull } from "node:os";
import { classifyError, type ErrorClass } from "@redrive/core";
import { BlobError, type BlobFault } from "../bodies/blob-store.ts";
import { deniedText } from "./target.ts";

/** Core's classes, and the failures that do not happen on the network. */
export type FailureClass =
  | ErrorClass
  | "target-denied"
  | "invalid-request"
  | "secret-unavailable"
  | "body-unavailable";

export interface Failure {
  readonly errorClass: FailureClass;
  readonly errorMessage: string;
  /** This process lacked something, so no connection was opened. Default: it did not. */
  readonly shortage?: Shortage | undefined;
  readonly bodyFault?: BodyFault | undefined;
}

/** Why the stored body of a task could not be read, and whether a part of it was sent. */
export interface BodyFault {
  readonly kind: BlobFault;
  readonly isSent: boolean;
}

/** What lacks: files or memory of the node, or ports for connections to this origin. */
export type Shortage = "node" | "origin";

/** The target policy denies an address of the name. */
export class TargetDenied extends Error {
  override readonly name = "TargetDenied";

  constructor(host: string) {
    super(deniedText(host));
  }
}

/** The lookup of the name failed. */
export class LookupFailed extends Error {
  override readonly name = "LookupFailed";
  readonly code: string;

  /** `EMPTY_ANSWER`, `LOOKUP_TIMEOUT`, `TOO_MANY_LOOKUPS` or a code of `node:dns`. */
  constructor(code: string) {
    super(TEXTS.dns);
    this.code = code;
  }
}

/** No socket in time. The code is undici's, so that core knows its class. */
export class ConnectTimeout extends Error {
  override readonly name = "ConnectTimeout";
  readonly code = "UND_ERR_CONNECT_TIMEOUT";
}

const TEXTS: Readonly<Record<ErrorClass, string>> = {
  timeout: "no complete response in time",
  connect: "no connection to the target",
  reset: "the target closed the connection before its response was complete",
  dns: "the target's name could not be looked up",
  tls: "no secure connection to the target",
  protocol: "the target's response is not valid",
};

/** The protocol that the target should use, for messages. */
export type TargetProtocol = "HTTP/1.1" | "HTTP/2" | "gRPC" | "AMQP 0-9-1" | "RESP";

/** Hints for codes that do not explain themselves. */
const HINTS: Readonly<Record<string, string>> = {
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not use TLS on this port",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  CERT_HAS_EXPIRED: "its certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed",
};

/** Converts an error of undici, Node or the connector to a failure. */
export function failureOf(
  error: Error,
  isSent: boolean,
  protocol: TargetProtocol = "HTTP/1.1",
): Failure {
  if (error instanceof TargetDenied) {
    return { errorClass: "target-denied", errorMessage: error.message };
  }
  if (error instanceof BlobError) return bodyFailure(error, isSent);
  const code = codeOf(error);
  if (code === "UND_ERR_INVALID_ARG" || code === "UND_ERR_NOT_SUPPORTED") {
    return { errorClass: "invalid-request", errorMessage: error.message };
  }
  const errorClass = classOf(error, code, isSent);
  const errorMessage = messageFor(errorClass, code || parserReason(error), protocol);
  const shortage = isSent ? undefined : shortageOf(error, errorClass);
  return { errorClass, errorMessage, shortage };
}

/** The failure of an attempt whose body could not be read. The text is for operators, not for callers. */
export function bodyFailure({ fault: kind }: BlobError, isSent: boolean): Failure {
  const errorMessage = BODY_TEXTS[kind === "missing" || kind === "corrupt" ? kind : "unavailable"];
  return { errorClass: "body-unavailable", errorMessage, bodyFault: { kind, isSent } };
}

const BODY_TEXTS = {
  missing: "the body of the task is not in the blob store",
  corrupt: "the body in the blob store is not the one that was accepted; no complete body was sent",
  unavailable: "the blob store with the body of the task is not available",
} as const;

/**
 * Node's codes for a process that lacks files, memory or ports, from opening a socket or from a lookup.
 * With EADDRNOTAVAIL, all ports for connections to this address are in use, so only its origin waits.
 */
const SHORTAGES: ReadonlyMap<unknown, Shortage> = new Map([
  ["EMFILE", "node"],
  ["ENFILE", "node"],
  ["ENOMEM", "node"],
  ["ENOBUFS", "node"],
  ["EAGAIN", "node"],
  ["EAI_MEMORY", "node"],
  ["EADDRNOTAVAIL", "origin"],
  ["TOO_MANY_LOOKUPS", "origin"],
]);

/**
 * An error of several addresses holds one error for each. A machine without IPv6 may report
 * EADDRNOTAVAIL for one address of a target that refuses the other, so ports lack only if all say so.
 */
function shortageOf(error: Error, errorClass: ErrorClass): Shortage | undefined {
  const { errors = [error] } = error as { readonly errors?: readonly unknown[] };
  const found = errors.map((one) => SHORTAGES.get((one as NodeJS.ErrnoException).code));
  if (found.includes("node")) return "node";
  const { syscall = "" } = error as NodeJS.ErrnoException;
  // With mDNS in its configuration, the system reports EINVAL for a lookup that could open no file.
  const isLookup = errorClass === "dns" || syscall === "getaddrinfo" || syscall.startsWith("query");
  if (isLookup && lacksFiles()) return "node";
  return found.every((one) => one === "origin") ? "origin" : undefined;
}

/** The failure of an attempt whose deadline has passed. */
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
 * undici's errors for a malformed response: its parser, its assertions (status 000), its limits,
 * and `bad response` or `bad upgrade` for an unexpected upgrade.
 */
function isBrokenProtocol(error: Error, code: string): boolean {
  if (code === "UND_ERR_SOCKET") return error.message.startsWith("bad ");
  // This error should have a code, but has none in undici 7.30.
  if (error.name === "HTTPParserError") return true;
  return /^(HPE_|ERR_ASSERTION|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_)/.test(code);
}

/** The text of a failure. The code is shown unless it is empty. */
export function messageFor(errorClass: ErrorClass, code: string, protocol: TargetProtocol): string {
  const text = errorClass === "protocol" ? `${TEXTS.protocol} ${protocol}` : TEXTS[errorClass];
  if (code === "" || code.startsWith("UND_ERR_SOCKET")) return text;
  const hint = code === NO_ALPN ? `it does not offer ${protocol}` : hintOf(code);
  return `${text}${hint === "" ? "" : `: ${hint}`} (${code})`;
}

/** The target refuses every protocol that the client offers in its TLS handshake. */
export const NO_ALPN = "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL";

function hintOf(code: string): string {
  return Object.hasOwn(HINTS, code) ? (HINTS[code] ?? "") : "";
}

/** The reason from undici's parser. It repeats nothing that the target sent. */
function parserReason(error: Error): string {
  return error.name === "HTTPParserError" ? (/\(([^)]*)\)$/.exec(error.message)?.[1] ?? "") : "";
}

function codeOf(error: Error): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}

// Open file limit: how many files this process may open. Each attempt uses one for its connection,
// so the limit bounds how many attempts may run at once.

/** Enough for 10,000 attempts a second of 100 ms each. More connections cost memory, not time. */
const MAX_DEFAULT = 1024;

/** Undefined: not known, because this system has no `/proc`. */
export function openFileLimit(): number | undefined {
  try {
    return softLimitIn(readFileSync("/proc/self/limits", "utf8"));
  } catch {
    return undefined;
  }
}

/** The soft limit in the text of `/proc/self/limits`. */
export function softLimitIn(limits: string): number | undefined {
  const digits = /^Max open files\s+(\d+)/mu.exec(limits)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * Whether this process can open no file now. A lookup that could open no socket reports that the DNS
 * server refused the connection, so the error alone does not show the cause.
 */
function lacksFiles(): boolean {
  try {
    closeSync(openSync(devNull, "r"));
    return false;
  } catch {
    return true;
  }
}

/** Half of the files: the rest is for idle connections, requests to the API and the store. */
export function defaultAttemptsAtOnce(openFiles: number | undefined): number {
  if (openFiles === undefined) return MAX_DEFAULT;
  return Math.max(1, Math.min(MAX_DEFAULT, Math.floor(openFiles / 2)));
}
