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

/**
 * Codes of Node, undici and gRPC-less sockets by the class they belong to. `!` marks the classes at
 * which no byte has left yet.
 */
const CODES: readonly (readonly [ErrorClass | `${ErrorClass}!`, RegExp])[] = [
  ["connect!", /^(ECONNREFUSED|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$/],
  ["dns!", /^(ENOTFOUND$|ESERVFAIL$|ENODATA$|EAI_)/],
  ["reset", /^(ECONNRESET|ECONNABORTED|EPIPE|ENOTCONN|UND_ERR_(SOCKET|CLOSED|DESTROYED))$/],
  ["timeout", /^(E(SOCKET)?TIMEDOUT|UND_ERR_(HEADERS|BODY)_TIMEOUT)$/],
  ["protocol", /^(HPE_|ERR_HTTP2?_|UND_ERR_RES|UND_ERR_HEADERS_OVERFLOW$)/],
  ["tls!", /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_)/],
  ["tls", /^EPROTO$/],
];

/** How fetch says "network failure" where it gives no cause: browsers, Deno, Bun, workers. */
const NETWORK_MESSAGE =
  /fetch failed|failed to fetch|networkerror|network error|network request failed|load failed|connection (lost|reset|refused|closed)|socket hang ?up/i;

/** Mistakes in a program: repeating them repeats the mistake. */
const FAULT_NAME = /^(Type|Reference|Syntax|Range|Eval|URI|Assertion)Error$/;

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

/** The outcome that a thrown value stands for. Never throws, whatever was thrown. */
export function classifyError(error: unknown): Outcome {
  try {
    return classifyMarks(marksOf(error));
  } catch {
    // A getter or proxy that throws leaves no mark that could be read.
    return THROWN;
  }
}

/** What may be read off a thrown value: anything may have been thrown. */
function marksOf(value: unknown): Marks {
  return typeof value === "object" && value !== null ? value : {};
}

function classifyMarks(error: Marks): Outcome {
  const { status, statusCode, response, cause } = error;
  const answered = [status, statusCode, marksOf(response).status].find(isStatus);
  if (answered !== undefined) return statusOutcome(answered);
  return classifyCode(error) ?? classifyCode(marksOf(cause)) ?? classifyName(error);
}

function isStatus(value: unknown): value is number {
  return typeof value === "number" && value >= 300 && value <= 999 && value % 1 === 0;
}

function classifyCode({ code, details }: Marks): Outcome | undefined {
  if (typeof code === "string") {
    const found = CODES.find(([, codes]) => codes.test(code));
    return found && errorOutcome(found[0]);
  }
  // grpc-js numbers its codes and always adds `details`.
  const name = typeof details === "string" ? GRPC_CODES[code as number] : undefined;
  return name && grpcOutcome(name);
}

function errorOutcome(mark: ErrorClass | `${ErrorClass}!`): Outcome {
  const errorClass = mark.replace("!", "") as ErrorClass;
  return { kind: "error", errorClass, sent: errorClass === mark };
}

function classifyName({ name, message }: Marks): Outcome {
  if (name === "AbortError") return { kind: "aborted" };
  if (name === "TimeoutError") return errorOutcome("timeout");
  // undici's parser gives its errors a name, but not always a code.
  if (name === "HTTPParserError") return errorOutcome("protocol");
  if (typeof message === "string" && NETWORK_MESSAGE.test(message)) return errorOutcome("reset");
  return typeof name === "string" && FAULT_NAME.test(name) ? { kind: "fault" } : THROWN;
}
