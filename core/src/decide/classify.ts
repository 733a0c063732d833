/**
 * Classify: turns a thrown value into an outcome, by the fields that HTTP clients, Node, fetch, gRPC,
 * the AWS SDK and SQL drivers put on their errors. Fields come first and messages last, because
 * messages differ between runtimes.
 */

import { ABORTED, FAULT, type Outcome } from "./outcome.ts";
import { type ErrorClass, GRPC_CODES } from "./policy.ts";

const errorOutcome = (errorClass: ErrorClass, sent: boolean): Outcome => ({
  kind: "error",
  errorClass,
  sent,
});

const RESET = errorOutcome("reset", true);

const TIMEOUT = errorOutcome("timeout", true);

/** What a client throws when a signal is aborted. It does not say which one. */
const CLIENT_ABORT: Outcome = { ...ABORTED };

/**
 * Maps codes, names and messages to outcomes. The first match counts. Every program that retries loads
 * these patterns, so they are short: some codes are matched by their first letters only. SQL states are
 * codes of five characters. Listed are those that fail on every attempt: bad data (22), a violated
 * constraint (23), a transaction that has failed before (25P02), failed authorization (28), and syntax
 * or missing rights (42); and those of a server that is not available: 08, 53, 57P01 to 57P03. A guard
 * counts only failures that have such a mark.
 */
const PATTERNS: readonly (readonly [RegExp, Outcome])[] = [
  [/^(ECONNREF|E(HOST|NET)[UD]|EADDRN|UND_ERR_CONN)/, errorOutcome("connect", false)],
  [/^(ENOTF|ESERV|ENODATA|EAI_)/, errorOutcome("dns", false)],
  [/^([A-Z_]+TIMED?OUT|TimeoutError|57014)$/, TIMEOUT],
  [/^(HPE_|ERR_HTTP|UND_ERR_(RES|H)|HTTPP)/, errorOutcome("protocol", true)],
  [/^([A-Z_]*CERT|ERR_(TLS|SSL)_|UNABLE_TO_)/, errorOutcome("tls", false)],
  [/^EPROTO$/, errorOutcome("tls", true)],
  [/^(AbortError|ERR_CANCELED)$/, CLIENT_ABORT],
  [/^(ECONN|EPIPE|ENOTC|ESOCKET|UND_ERR_(S|CL|D)|PROTOCOL_CONN|Mongo(Net|ServerSel|NotC))/, RESET],
  [/^((08|53)[\dA-Z]{3}|57P0[1-3]|MaxRetriesPerRequestError|KafkaJS(Conn|RequestT)\w+)$/, RESET],
  [/^((Type|Reference|Syntax|Range|URI|Assertion)Error|(2[238]|42)[\dA-Z]{3}|25P02)$/, FAULT],
  [/^SQLITE_CONSTRAINT/, FAULT],
];

/** Fields that an error may have. Anything can be thrown, so all types are guesses. */
interface Fields {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly details?: unknown;
  /** mysql2 and mariadb: the SQL state, and the number of the error. */
  readonly sqlState?: unknown;
  readonly errno?: unknown;
  /** node:sqlite: SQLite's extended result code. */
  readonly errcode?: unknown;
  /** mssql: the number of the error. */
  readonly number?: unknown;
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly response?: Fields | null;
  readonly cause?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: unknown } | null;
  readonly $retryable?: { readonly throttling?: unknown } | null;
}

/** Messages of fetch for a network failure without a cause: browsers, Deno, Bun, workers. */
const NETWORK_MESSAGE =
  /fetch failed|failed to fetch|network ?(error|request failed)|load failed|connection (is )?(lost|reset|refused|closed|terminated)|socket hang ?up/i;

const THROWN: Outcome = { kind: "thrown" };

/**
 * The outcome of a thrown value. Never throws. `isAborted`: the caller has aborted the call. Otherwise an
 * abort is a timeout that the client itself has set, as with `AbortSignal.timeout`.
 */
export function classifyError(error: unknown, isAborted = true): Outcome {
  const outcome = outcomeOf(error);
  return outcome === CLIENT_ABORT && !isAborted ? TIMEOUT : outcome;
}

function outcomeOf(error: unknown): Outcome {
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

function classifyCode(fields: Fields): Outcome | undefined {
  const { code, details, sqlState } = fields;
  // grpc-js uses numeric codes and always adds `details`.
  const name = typeof details === "string" && GRPC_CODES[code as number];
  if (name) return name === "CANCELLED" ? ABORTED : { kind: "grpc", code: name };
  // MySQL's own codes are names, such as ER_LOCK_WAIT_TIMEOUT. Its SQL state says what they mean.
  const known = classifyText(typeof sqlState === "string" ? sqlState : code);
  return known ?? (isRefusedStatement(fields) ? FAULT : undefined);
}

/** The same statement fails again, by the number that a database gives to the error. */
function isRefusedStatement({ code, sqlState, errno, errcode, number }: Fields): boolean {
  if (sqlState !== undefined) return MYSQL_REFUSALS.includes(errno);
  if (code === "EREQUEST") return MSSQL_REFUSALS.includes(number);
  // SQLite's extended result code has the primary one in its last byte; 19 is a constraint.
  return code === MONGO_DUPLICATE || (Number(errcode) & 255) === 19;
}

/** MySQL errors with the general SQL state HY000: no default value, a wrong value, a check constraint. */
const MYSQL_REFUSALS: readonly unknown[] = [1364, 1366, 3819];

/** Syntax, unknown names, rights, values that do not fit, and violated constraints. */
const MSSQL_REFUSALS: readonly unknown[] = [
  102, 207, 208, 229, 245, 515, 547, 2601, 2627, 2628, 8152,
];

const MONGO_DUPLICATE = 11_000;

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
