/**
 * gRPC input: what a task with a gRPC target must fulfill in addition, so that a call that cannot be made
 * is refused when it is created. No message quotes a value of the metadata, because it may be a secret.
 */
import { DocumentError, type FieldProblem, fieldProblem, quote } from "@redrive/core";
import { parseBodyRef } from "../../bodies/body-ref.ts";
import type { Headers } from "../../model/task.ts";

/** The length of a message is a number of 32 bits. */
const MAX_MESSAGE = 2 ** 32 - 1;

const NAME = /^[\w.-]+$/;
/** Visible ASCII and spaces, but none at the ends. */
const VALUE = /^$|^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const CONTENT_TYPE = /^application\/grpc(\+[\w.-]+)?$/i;

/** The part of a task that a gRPC target restricts. */
export interface GrpcInput {
  readonly method?: string;
  readonly headers?: Headers;
  readonly json?: unknown;
  readonly bodyRef?: string;
}

/** Throws `INVALID_ARGUMENT` for a task that cannot be sent as a gRPC call. */
export function assertGrpcInput(input: GrpcInput): void {
  const { method, json, bodyRef, headers = {} } = input;
  const problems: FieldProblem[] = [];
  if (method !== undefined && method !== "POST") {
    problems.push(fieldProblem("method", method, "method must be POST for a gRPC target"));
  }
  if (json !== undefined) problems.push(wrong("json", NO_JSON));
  const { length = 0 } = parseBodyRef(bodyRef ?? "") ?? {};
  if (length > MAX_MESSAGE) {
    const text = `bodyRef must be at most ${MAX_MESSAGE} bytes for a gRPC target, got ${length}`;
    problems.push(wrong("bodyRef", text));
  }
  problems.push(
    ...Object.entries(headers).flatMap(([name, value]) => metadataProblem(name, value)),
  );
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
}

const NO_JSON =
  "json cannot be sent to a gRPC target: encode the message and send it as body or bodyBase64";

function metadataProblem(name: string, value: string): readonly FieldProblem[] {
  const text = metadataText(name.toLowerCase(), value);
  return text === undefined ? [] : [wrong(`headers.${name}`, `header ${quote(name)} ${text}`)];
}

function metadataText(name: string, value: string): string | undefined {
  if (!NAME.test(name)) return "is not a name of gRPC metadata: use a-z 0-9 _ . and -";
  if (name.startsWith("grpc-")) return "is set by the service, not by a task";
  if (name === "content-type" && !CONTENT_TYPE.test(value)) {
    return `must be application/grpc or begin with application/grpc+ for a gRPC target, got ${quote(value)}`;
  }
  if (name.endsWith("-bin") && !BASE64.test(value)) return "must be bytes in Base64";
  return VALUE.test(value) ? undefined : "must be a string of visible ASCII characters";
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}
