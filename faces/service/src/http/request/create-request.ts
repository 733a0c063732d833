/**
 * Created task: from what a request brings to what the service is asked: the key of its header, the
 * words in which a bad policy is refused, and the wait that its caller prefers.
 */
import { DocumentError, isObject } from "@redrive/core";
import type { TaskInput } from "../../intake/task-input.ts";

const MAX_WAIT_SECONDS = 25;

/** The input with the header's key. What is wrong with it is found where all inputs are checked. */
export function readTaskInput(body: unknown, header: unknown): TaskInput {
  return (isObject(body) ? withKey(body, header) : body) as TaskInput;
}

function withKey(body: Readonly<Record<string, unknown>>, header: unknown): unknown {
  const { idempotencyKey } = body;
  const isText = typeof idempotencyKey === "string";
  // No header makes good what the field gets wrong.
  if (idempotencyKey !== undefined && !isText) return body;
  const own = isText ? plainKey(idempotencyKey) : undefined;
  const given = typeof header === "string" ? plainKey(header) : undefined;
  if (own !== undefined && given !== undefined && own !== given) {
    throw wrongKey("the header Idempotency-Key and the field idempotencyKey differ");
  }
  const key = own ?? given;
  return key === undefined ? body : { ...body, idempotencyKey: key };
}

/** A key may be spelled as a string of RFC 8941, as the header's draft has it: `"abc"` is `abc`. */
function plainKey(text: string): string {
  const trimmed = text.trim();
  return /^"([^"\\]+)"$/.exec(trimmed)?.[1] ?? trimmed;
}

function wrongKey(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [
    { field: "idempotencyKey", value: undefined, message },
  ]);
}

/** Of a policy that came with a task, the fields are the task's `policy.*`. */
export function asTaskError(error: unknown): unknown {
  if (!(error instanceof DocumentError) || error.code !== "INVALID_POLICY") return error;
  const problems = error.problems.map((problem) => ({
    ...problem,
    field: problem.field === "" ? "policy" : `policy.${problem.field}`,
  }));
  return new DocumentError("INVALID_POLICY", problems);
}

/** Seconds of `Prefer: wait=n` (RFC 7240), 25 at most; 0 without one. */
export function preferredWaitSeconds(prefer: string | string[] | undefined): number {
  if (prefer === undefined) return 0;
  const [, seconds = "0"] = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})/i.exec(String(prefer)) ?? [];
  return Math.min(MAX_WAIT_SECONDS, Number(seconds));
}
