/**
 * Classify: turns a thrown value into an outcome, by the fields that HTTP clients, Node, fetch, gRPC,
 * the AWS SDK and SQL drivers put on their errors. Fields come first and messages last, because
 * messages differ between runtimes.
 */
import { type ErrorClass, GRPC_CODES } from "../policy/error-classes.ts";
import { ABORTED, FAULT, type Outcome } from "./outcome.ts";

const errorOutcome = (errorClass: ErrorClass, sent: boolean): Outcome => ({
  kind: "error",
  errorClass,
  sent,
});

const RESET = errorOutcome("reset", true);

/**
 * Maps codes, names and messages to outcomes. The first match counts. Every program that retries loads
 * these patterns, so they are short: some codes are matched by their first letters only. SQL states are
 * codes of five characters. Only the classes that fail on every attempt are listed: bad data (22), a
 * violated constraint (23), failed authorization (28), and syntax or missing rights (42).
 */
const PATTERNS: readonly (readonly [RegExp, Outcome])[] = [
  [/^(ECONNREF|E(HOST|NET)[UD]|EADDRN|UND_ERR_CONN)/, errorOutcome("connect", false)],
  [/^(ENOTF|ESERV|ENODATA|EAI_)/, errorOutcome("dns", false)],
  [/^([A-Z_]+TIMED?OUT|TimeoutError)$/, errorOutcome("timeout", true)],
  [/^(HPE_|ERR_HTTP|UND_ERR_(RES|H)|HTTPP)/, errorOutcome("protocol", true)],
  [/^([A-Z_]*CERT|ERR_(TLS|SSL)_|UNABLE_TO_)/, errorOutcome("tls", false)],
  [/^EPROTO$/, errorOutcome("tls", true)],
  [/^(AbortError|ERR_CANCELED)$/, ABORTED],
  [/^(ECONN|EPIPE|ENOTC|UND_ERR_(S|CL|D))/, RESET],
  [/^((Type|Reference|Syntax|Range|URI|Assertion)Error|(2[238]|42)[\dA-Z]{3})$/, FAULT],
];

/** Fields that an error may have. Anything can be thrown, so all types are guesses. */
interface Fields {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly details?: unknown;
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly response?: Fields | null;
  readonly cause?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: unknown } | null;
  readonly $retryable?: { readonly throttling?: unknown } | null;
}

/** Messages of fetch for a network failure without a cause: browsers, Deno, Bun, workers. */
const NETWORK_MESSAGE =
  /fetch failed|failed to fetch|network ?(error|request failed)|load failed|connection (lost|reset|refused|closed)|socket hang ?up/i;

const THROWN: Outcome = { kind: "thrown" };

/** The outcome of a thrown value. Never throws. */
export function classifyError(error: unknown): Outcome {
  try {
    const fields: Fields = Object(error);
    const { name, status, statusCode, response, $metadata, $retryable } = fields;
    const answered =
      statusOf(status) ||
      statusOf(statusCode) ||
      (response && (statusOf(response.status) || statusOf(response.statusCode))) ||
      ($metadata && statusOf($metadata.httpStatusCode));
    if (answered) {
      // AWS services throttle with status 400 and one of these names.
      const isThrottled =
        $retryable?.throttling || /Throttl|TooManyRe|ThroughputEx/.test(name as string);
      const verdict = isThrottled ? "throttled" : $retryable && "transient";
      return { kind: "status", status: answered, ...(verdict && { verdict }) };
    }
    return (
      classifyCode(fields) ?? classifyCode(Object(fields.cause)) ?? classifyName(fields) ?? THROWN
    );
  } catch {
    // A getter or proxy throws, so no field can be read.
    return THROWN;
  }
}

function classifyCode({ code, details }: Fields): Outcome | undefined {
  // grpc-js uses numeric codes and always adds `details`.
  const name = typeof details === "string" && GRPC_CODES[code as number];
  if (!name) return classifyText(code);
  return name === "CANCELLED" ? ABORTED : { kind: "grpc", code: name };
}

/** 0 if the value is not an error status. */
function statusOf(value: unknown): number {
  return typeof value === "number" && value >= 300 && value <= 999 && value % 1 === 0 ? value : 0;
}

/** Browsers throw a network failure as a TypeError; then the message decides. */
function classifyName({ name, message }: Fields): Outcome | undefined {
  // The name of most errors is just "Error".
  const named = name === "Error" ? undefined : classifyText(name);
  const isNetwork = typeof message === "string" && (!named || named.kind === "fault");
  return isNetwork && NETWORK_MESSAGE.test(message) ? RESET : named;
}

function classifyText(text: unknown): Outcome | undefined {
  if (typeof text !== "string") return undefined;
  return PATTERNS.find(([pattern]) => pattern.test(text))?.[1];
}
