/**
 * Problem: the response to every error as a problem document (RFC 9457), whether a route, Fastify
 * or Node's HTTP parser found it. Only this file maps a code to a status.
 */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import {
  type Clock,
  DocumentError,
  type ErrorCode,
  type FieldProblem,
  messageOf,
  nearestName,
  RedriveError,
} from "@redrive/core";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../model/errors.ts";

/** Sends any error as a problem document. Server errors are logged. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const known = codedError(error, request);
  const problem = problemOf(known);
  const { status } = problem;
  if (status >= 500) logServerError(error, problem.title, request, reply);
  const seconds = RETRY_AFTER_SECONDS[status];
  if (seconds !== undefined) reply.header("retry-after", String(seconds));
  if (status === 401) reply.header("www-authenticate", 'Bearer realm="redrive"');
  // Closing the connection while the caller still sends would lose the response. The rest of the
  // body is read and dropped, for as long as a request may take.
  if (status === 413) reply.removeHeader("connection");
  const text = JSON.stringify(problem);
  void reply.code(status).header("content-type", PROBLEM_TYPE).serializer(unchanged).send(text);
}

/**
 * The response carries the request id of the log entry, so that the caller can refer the operator
 * to it. An outage refuses every request for the same reason, so it has one line per minute.
 */
export function logServerError(
  error: unknown,
  title: string,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  reply.header("x-request-id", request.id);
  if (!(error instanceof RedriveError) || !OUTAGES.has(error.code)) {
    request.log.error({ err: error }, title);
    return;
  }
  const { code, message, cause } = error;
  const requests = request.server.repeatedLines.due(`${code}\n${title}`);
  if (requests === undefined) return;
  const reason = cause === undefined ? message : `${message}: ${messageOf(cause)}`;
  request.log.error({ code, reason, requests }, title);
}

/** The cause is in the store, at another node or in the operator's hands, and no stack explains it. */
const OUTAGES: ReadonlySet<string> = new Set([
  "STORE_UNAVAILABLE",
  "STORE_FULL",
  "BODY_STORE_UNAVAILABLE",
  "DESTINATION_BUSY",
  "SECRET_UNAVAILABLE",
  "SERVICE_STOPPED",
]);

/** A log line with the same content is written at most this often. */
const REPEAT_MS = 60_000;

/** Lines that would be repeated: each is written once a minute, with their number since the last one. */
export class RepeatedLines {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #lines = new Map<string, { writtenMs: number; count: number }>();

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** The number of lines that this one stands for; undefined: it is not written. */
  due(content: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    const line = this.#lines.get(content) ?? { writtenMs: Number.NEGATIVE_INFINITY, count: 0 };
    line.count++;
    this.#lines.set(content, line);
    if (nowMs - line.writtenMs < REPEAT_MS) return undefined;
    const { count } = line;
    line.writtenMs = nowMs;
    line.count = 0;
    return count;
  }
}

const unchanged = (payload: unknown) => payload as string;

/** Fastify's error codes, converted to ours. */
const FASTIFY_CODES: Readonly<Record<string, (message: string) => Error>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    serviceError(
      "BODY_TOO_LARGE",
      "the JSON may be at most 1 MiB, a batch 16 MiB: send a larger body with POST /forward, or POST /bodies and bodyRef",
    ),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    serviceError(
      "UNSUPPORTED_MEDIA_TYPE",
      "the body must be application/json; with curl use `curl --json '{...}'`, not -d",
    ),
  FST_ERR_MAX_PARAM_LENGTH: () => serviceError("NOT_FOUND", "there is no such path"),
};

function codedError(error: unknown, request: FastifyRequest): unknown {
  if (error instanceof RedriveError) return error;
  const { code = "", validation, statusCode = 500, message } = error as Partial<FastifyError>;
  if (validation !== undefined) {
    const schema = schemaOf(request, error as FastifyError);
    return new DocumentError("INVALID_ARGUMENT", fieldProblems(validation, schema));
  }
  const coded = FASTIFY_CODES[code];
  if (coded !== undefined) return coded(message ?? "");
  if (statusCode >= 500) return error;
  return serviceError("INVALID_REQUEST", "the request is not valid", error);
}

type Validation = NonNullable<FastifyError["validation"]>;

/** The part of a JSON Schema that suggestions need. */
interface ObjectSchema {
  readonly properties?: Readonly<Record<string, ObjectSchema>>;
}

/** The schema of the part of the request that the error is about. */
function schemaOf({ routeOptions }: FastifyRequest, { validationContext }: FastifyError) {
  const schemas = routeOptions.schema as Readonly<Record<string, ObjectSchema>> | undefined;
  return schemas?.[validationContext ?? ""];
}

/** Converts the errors of the schema validator to field problems. */
function fieldProblems(
  validation: Validation,
  schema: ObjectSchema | undefined,
): readonly FieldProblem[] {
  return validation.map(({ keyword, instancePath, params, message = "" }) => {
    const path = instancePath.slice(1).replaceAll("/", ".");
    const { additionalProperty, missingProperty } = params as Record<string, unknown>;
    if (keyword === "additionalProperties") {
      return unknownField(path, String(additionalProperty), schema);
    }
    const field = keyword === "required" ? joinPath(path, String(missingProperty)) : path;
    return {
      field,
      value: undefined,
      message: `${field || "the body"} ${describeKeyword(message, params)}`,
    };
  });
}

function describeKeyword(message: string, params: object): string {
  const { allowedValues } = params as { allowedValues?: readonly unknown[] };
  return allowedValues === undefined ? message : `must be one of ${allowedValues.join(", ")}`;
}

/** Suggests only a name that the schema has at this path. */
function unknownField(path: string, name: string, schema: ObjectSchema | undefined): FieldProblem {
  const field = joinPath(path, name);
  const parents = path === "" ? [] : path.split(".");
  const parent = parents.reduce((part, step) => part?.properties?.[step], schema);
  const near = nearestName(name, Object.keys(parent?.properties ?? {}));
  const hint = near === undefined ? "" : `, did you mean ${JSON.stringify(near)}?`;
  const message = `unknown field ${JSON.stringify(field.slice(0, 100))}${hint}`;
  return { field: field.slice(0, 100), value: undefined, message };
}

function joinPath(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

/** Responds to bytes that Node's HTTP parser rejected: there is no request, only a socket. */
export function sendSocketError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const isLate = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
  endSocket(
    socket,
    isLate
      ? serviceError("REQUEST_TIMEOUT", "the request did not arrive in time")
      : serviceError("INVALID_REQUEST", "this is not valid HTTP/1.1"),
  );
}

/** Sends a problem on a socket that has no request, and closes it. */
export function endSocket(socket: Socket, error: RedriveError): void {
  const problem = problemOf(error);
  const text = JSON.stringify(problem);
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    `content-type: ${PROBLEM_TYPE}`,
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
}

// Problem document: the only place that maps an error to a response: its code to a status, its message to an
// `application/problem+json` document (RFC 9457). An error without a code is a 500 without details.

const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

interface ProblemDocument {
  /** A link to the code on the service's `/docs` page, which agrees with `docs/errors.md`. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** Stable, for programs. */
  readonly code: ErrorCode;
  /** For people: what was wrong and how to fix it. */
  readonly detail: string;
  /** The invalid fields; absent if no field is invalid. */
  readonly errors?: readonly FieldError[];
}

interface FieldError {
  /** Path of the field, e.g. `policy.maxAttempts`. */
  readonly field: string;
  readonly message: string;
}

/** Seconds after which a retry is useful, by status. */
const RETRY_AFTER_SECONDS: Readonly<Record<number, number>> = { 429: 1, 503: 1, 507: 10 };

const MAX_FIELDS = 20;

/** By code. Codes that only occur in an embedding process are a 500 here. */
const STATUSES: Readonly<Partial<Record<ErrorCode, readonly [status: number, title: string]>>> = {
  INVALID_REQUEST: [400, "The request is malformed"],
  INVALID_ARGUMENT: [400, "A field is invalid"],
  INVALID_POLICY: [400, "The policy is invalid"],
  INVALID_DESTINATION: [400, "The destination is invalid"],
  IDEMPOTENCY_KEY_REQUIRED: [400, "The policy requires an idempotency key"],
  UNAUTHENTICATED: [401, "An API key is required"],
  FORBIDDEN: [403, "The API key may not do this"],
  CROSS_ORIGIN: [403, "Pages of other origins may not do this"],
  NOT_FOUND: [404, "The resource does not exist"],
  TASK_NOT_FOUND: [404, "There is no such task"],
  METHOD_NOT_ALLOWED: [405, "The path does not support this method"],
  REQUEST_TIMEOUT: [408, "The request did not arrive in time"],
  POLICY_CONFLICT: [409, "The policy exists with a different document"],
  POLICY_IN_USE: [409, "The policy is in use"],
  TASK_STATE_CONFLICT: [409, "The task is in another state"],
  UPLOAD_IN_PROGRESS: [409, "A request with the same key is still arriving"],
  BODY_TOO_LARGE: [413, "The body is too large"],
  UNSUPPORTED_MEDIA_TYPE: [415, "The body must be plain JSON"],
  WRONG_HOST: [421, "The Host header names another host"],
  IDEMPOTENCY_CONFLICT: [422, "The idempotency key was used with another payload"],
  UNKNOWN_POLICY: [422, "There is no such policy"],
  BODY_NOT_FOUND: [422, "There is no such stored body"],
  NOT_MEASURED: [422, "The destination was not measured"],
  SIMULATION_TOO_LARGE: [422, "The simulation is too large"],
  STORE_REFUSED: [422, "The store refuses this item"],
  TARGET_DENIED: [422, "The target is not allowed"],
  TARGET_DISABLED: [422, "The target is disabled"],
  TOO_MANY_REQUESTS: [429, "Too many requests"],
  QUEUE_FULL: [429, "Too many tasks are waiting"],
  INTERNAL: [500, "Something went wrong"],
  DESTINATION_BUSY: [503, "Other callers are changing the destination"],
  STORE_UNAVAILABLE: [503, "The store is not available"],
  BODY_STORE_UNAVAILABLE: [503, "The store of large bodies is not available"],
  SECRET_UNAVAILABLE: [503, "This node lacks an encryption key"],
  SERVICE_STOPPED: [503, "The service is stopping"],
  STORE_FULL: [507, "The store is full"],
  LOOP_DETECTED: [508, "The task is in a loop"],
};

/** Every code that a response can have, for the docs page. */
export function problemCatalog(): readonly Pick<ProblemDocument, "code" | "status" | "title">[] {
  return Object.entries(STATUSES).map(([code, [status, title]]) => {
    return { code: code as ErrorCode, status, title };
  });
}

/** The problem document of an error. */
export function problemOf(error: unknown): ProblemDocument {
  if (!(error instanceof RedriveError)) return internal();
  const { code } = error;
  const [status, title] = STATUSES[code] ?? [];
  if (status === undefined || title === undefined || status === 500) return internal();
  const base = { type: typeOf(code), title, status, code, detail: detailOf(error) };
  return error instanceof DocumentError ? { ...base, errors: fieldsOf(error) } : base;
}

/** Details of the store stay in the log. */
function detailOf({ code, message }: RedriveError): string {
  if (code === "STORE_REFUSED") return "nothing was stored: do not send it again unchanged";
  if (code === "STORE_FULL") return "nothing was stored: free disk space, or send it again later";
  if (code === "BODY_STORE_UNAVAILABLE")
    return "large bodies cannot be stored or read now: try again later";
  return code === "STORE_UNAVAILABLE"
    ? "it is unknown what was stored: send it again with the same idempotency key"
    : message;
}

function fieldsOf({ problems }: DocumentError): readonly FieldError[] {
  return problems.slice(0, MAX_FIELDS).map(({ field, message }) => ({ field, message }));
}

function internal(): ProblemDocument {
  const detail = "see the service's log, under the id in x-request-id";
  return {
    type: typeOf("INTERNAL"),
    title: "Something went wrong",
    status: 500,
    code: "INTERNAL",
    detail,
  };
}

function typeOf(code: ErrorCode): string {
  return `/docs#${code}`;
}
