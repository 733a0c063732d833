/**
 * Create request: reads a create request: the idempotency key and the trace from the headers, the field
 * names of an inline policy's errors, and the preferred wait.
 */
import { DocumentError, isObject, parseKeyHeader } from "@redrive/core";
import { isTraceparent } from "../../deliver/trace.ts";
import type { PlainTaskInput, TaskInput } from "../../intake/task-input.ts";

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
