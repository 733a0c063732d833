/**
 * Classify: turns whatever a call threw into an outcome, by the marks that HTTP clients, Node, fetch
 * and gRPC leave on their errors. Marks come first and messages last, since every host words its
 * messages differently.
 */
import {
  type ErrorClass,
  GRPC_CODES,
  grpcOutcome,
  type Outcome,
  statusOutcome,
} from "./outcome.ts";

/** Codes of Node, undici and gRPC-less sockets. `!` marks those at which no byte has left yet. */
const CODES: Readonly<Record<string, ErrorClass | `${ErrorClass}!`>> = {
  ECONNREFUSED: "connect!",
  EHOSTUNREACH: "connect!",
  EHOSTDOWN: "connect!",
  ENETUNREACH: "connect!",
  ENETDOWN: "connect!",
  EADDRNOTAVAIL: "connect!",
  UND_ERR_CONNECT_TIMEOUT: "connect!",
  ENOTFOUND: "dns!",
  ECONNRESET: "reset",
  ECONNABORTED: "reset",
  EPIPE: "reset",
  ENOTCONN: "reset",
  UND_ERR_SOCKET: "reset",
  UND_ERR_CLOSED: "reset",
  UND_ERR_DESTROYED: "reset",
  ETIMEDOUT: "timeout",
  ESOCKETTIMEDOUT: "timeout",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_HEADERS_OVERFLOW: "protocol",
  UND_ERR_RESPONSE: "protocol",
  EPROTO: "tls",
};

/** Families of codes: certificates and TLS, what parsers complain of, and what resolvers answer. */
const CODE_FAMILIES: readonly (readonly [RegExp, ErrorClass | `${ErrorClass}!`])[] = [
  [/^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_)/, "tls!"],
  [/^(HPE_|ERR_HTTP2?_|UND_ERR_RES)/, "protocol"],
  [/^(EAI_|ESERVFAIL$|ENODATA$)/, "dns!"],
];

/** How fetch says "network failure" where it gives no cause: browsers, Deno, Bun, workers. */
const NETWORK_MESSAGE =
  /fetch failed|failed to fetch|networkerror|network error|network request failed|load failed|connection (lost|reset|refused|closed)|socket hang ?up/i;

/** Mistakes in a program: repeating them repeats the mistake. */
const FAULTS = new Set([
  "TypeError",
  "ReferenceError",
  "SyntaxError",
  "RangeError",
  "EvalError",
  "URIError",
  "AssertionError",
]);

interface Marks {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly response?: unknown;
  readonly cause?: unknown;
  readonly details?: unknown;
}

const THROWN: Outcome = { kind: "thrown" };
const FAULT: Outcome = { kind: "fault" };
const ABORTED: Outcome = { kind: "aborted" };

/** The outcome that a thrown value stands for. Never throws, whatever was thrown. */
export function classifyError(error: unknown): Outcome {
  if (typeof error !== "object" || error === null) return THROWN;
  try {
    return classifyMarks(error);
  } catch {
    // A getter or proxy that throws leaves no mark that could be read.
    return THROWN;
  }
}

function classifyMarks(error: Marks): Outcome {
  const status = httpStatus(error);
  if (status !== undefined) return statusOutcome(status);
  const byCode = classifyCode(error) ?? classifyCode(error.cause);
  if (byCode !== undefined) return byCode;
  return classifyName(error);
}

function httpStatus(error: Marks): number | undefined {
  const { response } = error;
  const nested =
    typeof response === "object" && response !== null ? (response as Marks).status : undefined;
  return [error.status, error.statusCode, nested].find(isStatus);
}

function isStatus(value: unknown): value is number {
  return typeof value === "number" && value >= 300 && value <= 999 && Math.floor(value) === value;
}

function classifyCode(error: unknown): Outcome | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, details } = error as Marks;
  if (typeof code === "string") return classFor(code);
  // grpc-js numbers its codes and always adds `details`.
  if (typeof code !== "number" || typeof details !== "string") return undefined;
  const name = GRPC_CODES[code];
  return name === undefined ? undefined : grpcOutcome(name);
}

function classFor(code: string): Outcome | undefined {
  const found = Object.hasOwn(CODES, code)
    ? CODES[code]
    : CODE_FAMILIES.find(([family]) => family.test(code))?.[1];
  return found === undefined ? undefined : errorOutcome(found);
}

function errorOutcome(mark: ErrorClass | `${ErrorClass}!`): Outcome {
  const unsent = mark.endsWith("!");
  const errorClass = (unsent ? mark.slice(0, -1) : mark) as ErrorClass;
  return { kind: "error", errorClass, sent: !unsent };
}

function classifyName(error: Marks): Outcome {
  const { name, message } = error;
  if (name === "AbortError") return ABORTED;
  if (name === "TimeoutError") return errorOutcome("timeout");
  // undici's parser gives its errors a name, but not always a code.
  if (name === "HTTPParserError") return errorOutcome("protocol");
  if (typeof message === "string" && NETWORK_MESSAGE.test(message)) return errorOutcome("reset");
  return typeof name === "string" && FAULTS.has(name) ? FAULT : THROWN;
}
