/**
 * Error response: sends the response to every error, whether a route, Fastify or Node's HTTP parser
 * found it.
 */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { DocumentError, type FieldProblem, nearestName, RedriveError } from "@redrive/core";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { PROBLEM_TYPE, problemOf, RETRY_AFTER_SECONDS } from "./problem.ts";

/** Sends any error as a problem document. Server errors are logged in full. */
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
 * to it.
 */
export function logServerError(
  error: unknown,
  title: string,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  request.log.error({ err: error }, title);
  reply.header("x-request-id", request.id);
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
