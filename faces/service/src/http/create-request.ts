/**
 * Create request: reads a create request: the idempotency key and the trace from the headers, the field
 * names of an inline policy's errors, and the preferred wait.
 */
import type { IncomingHttpHeaders } from "node:http";
import {
  DocumentError,
  type FieldProblem,
  isObject,
  nearestName,
  parseKeyHeader,
} from "@redrive/core";
import { isTraceparent } from "../deliver/deliverer.ts";
import type { PlainTaskInput, TaskInput } from "../intake/task-input.ts";
import type { Headers } from "../model/task.ts";

const MAX_WAIT_SECONDS = 25;

/** The input with the header's key. The intake checks everything else. */
export function readTaskInput(body: unknown, header: unknown): TaskInput {
  if (isObject(body) && Array.isArray(body["headers"])) throw headersList();
  return (isObject(body) ? withKey(body, header) : body) as TaskInput;
}

/**
 * The task continues the trace of the request that creates it, unless the task has a trace of its own.
 * An invalid `traceparent` is ignored, as the standard says.
 */
export function withTrace(input: TaskInput, traceparent: unknown): TaskInput {
  if (typeof traceparent !== "string" || !isTraceparent(traceparent)) return input;
  if (!isObject(input)) return input;
  const { headers = {} } = input as PlainTaskInput;
  // A wrong value is refused later, with a better message.
  if (!isObject(headers)) return input;
  const isGiven = Object.keys(headers).some((name) => name.toLowerCase() === "traceparent");
  return isGiven ? input : { ...input, headers: { ...headers, traceparent } };
}

function withKey(body: Readonly<Record<string, unknown>>, header: unknown): unknown {
  const { idempotencyKey } = body;
  const isText = typeof idempotencyKey === "string";
  // A header does not repair an invalid field.
  if (idempotencyKey !== undefined && !isText) return body;
  const own = isText ? plainKey(idempotencyKey) : undefined;
  const given = typeof header === "string" ? plainKey(header) : undefined;
  if (own !== undefined && given !== undefined && own !== given) {
    throw wrongKey("the header Idempotency-Key and the field idempotencyKey differ");
  }
  const key = own ?? given;
  return key === undefined ? body : { ...body, idempotencyKey: key };
}

/** `"abc"` means `abc`. The intake refuses what is neither. */
function plainKey(text: string): string {
  return parseKeyHeader(text)?.key ?? text.trim();
}

/** The intake also accepts pairs, for programs. In JSON there is one form, that of the schema. */
function headersList(): Error {
  const message = "headers must be an object of strings, got a list";
  return new DocumentError("INVALID_ARGUMENT", [{ field: "headers", value: undefined, message }]);
}

function wrongKey(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [
    { field: "idempotencyKey", value: undefined, message },
  ]);
}

/** The fields of an inline policy are reported as the task's `policy.*`. */
export function asTaskError(error: unknown): unknown {
  if (!(error instanceof DocumentError) || error.code !== "INVALID_POLICY") return error;
  const problems = error.problems.map((problem) => ({
    ...problem,
    field: problem.field === "" ? "policy" : `policy.${problem.field}`,
  }));
  return new DocumentError("INVALID_POLICY", problems);
}

/** Seconds of `Prefer: wait=n` (RFC 7240), at most 25; 0 without one. */
export function preferredWaitSeconds(prefer: string | string[] | undefined): number {
  if (prefer === undefined) return 0;
  const [, seconds = "0"] = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})/i.exec(String(prefer)) ?? [];
  return Math.min(MAX_WAIT_SECONDS, Number(seconds));
}

// Forward request: reads a request that is to be forwarded unchanged. Headers that begin with
// `Redrive-` say where and how; the others belong to the request. Those that belong to the
// connection, or to this service, are not forwarded.

/** The field of the task that each header sets, and how its text is read. */
const FIELDS: Readonly<Record<string, readonly [field: keyof TaskInput, read: Read]>> = {
  "redrive-target": ["targetUrl", String],
  "redrive-policy": ["policyId", String],
  "redrive-method": ["method", String],
  "redrive-destination": ["destination", String],
  "redrive-idempotent": ["idempotent", flag],
  "redrive-scheduled-at": ["scheduledAt", instant],
  "redrive-deadline-at": ["deadlineAt", instant],
  "redrive-callback-url": ["callbackUrl", String],
};

type Read = (text: string) => unknown;

/** The credentials for the target: `Authorization` itself is the key for this service. */
const TARGET_AUTHORIZATION = "redrive-target-authorization";

/** Sent by other Redrive services and libraries. They describe the request to us. */
const FROM_REDRIVE = new Set([
  "redrive-hop",
  "redrive-attempt",
  "redrive-task-id",
  "redrive-remaining-ms",
]);

/** Of the connection (RFC 9110 7.6.1), of this service, or of a browser's session with it. */
const OWN = new Set([
  "accept-encoding",
  "authorization",
  "connection",
  "content-length",
  "cookie",
  "expect",
  "host",
  "idempotency-key",
  "keep-alive",
  "origin",
  "prefer",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const OWN_PREFIX = /^(proxy|sec|redrive)-/;

/** The task without its body. Throws `INVALID_ARGUMENT` for an unknown `Redrive-` header. */
export function readForwardInput(received: IncomingHttpHeaders): TaskInput {
  const input: Record<string, unknown> = {};
  const headers: Record<string, string> = {};
  const connection = namesIn(received.connection);
  for (const [name, given] of Object.entries(received)) {
    const value = Array.isArray(given) ? given.join(", ") : (given ?? "");
    const known = FIELDS[name];
    if (known !== undefined) input[known[0]] = known[1](value);
    else if (name === TARGET_AUTHORIZATION) headers["authorization"] = value;
    else if (isForwarded(name) && !connection.has(name)) headers[name] = value;
  }
  const problems = Object.keys(received).flatMap((name) => unknownHeader(name) ?? []);
  if (input["targetUrl"] === undefined) problems.push(NO_TARGET);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  return readTaskInput({ ...input, headers: headers as Headers }, received["idempotency-key"]);
}

function isForwarded(name: string): boolean {
  return !OWN.has(name) && !OWN_PREFIX.test(name);
}

/** `Connection` names more headers that belong to the connection. */
function namesIn(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
}

const NO_TARGET: FieldProblem = {
  field: "targetUrl",
  value: undefined,
  message: "the header Redrive-Target must be the URL to which the request is forwarded",
};

/** A misspelled header must not be ignored: it may be the one that names the policy. */
function unknownHeader(name: string): FieldProblem | undefined {
  const isKnown = name in FIELDS || name === TARGET_AUTHORIZATION || FROM_REDRIVE.has(name);
  if (isKnown || !name.startsWith("redrive-")) return undefined;
  const near = nearestName(name, [...Object.keys(FIELDS), TARGET_AUTHORIZATION]);
  const hint = near === undefined ? "" : `, did you mean ${near}?`;
  return { field: name, value: undefined, message: `unknown header ${name}${hint}` };
}

/** Anything else is reported by the intake. */
function flag(text: string): unknown {
  if (text === "true") return true;
  return text === "false" ? false : text;
}

function instant(text: string): unknown {
  return /^\d{1,16}$/.test(text) ? Number(text) : text;
}
