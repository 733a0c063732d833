/**
 * Task body: the body of a new task in the forms that callers use, their check, and the bytes that they
 * stand for.
 */
import { type FieldProblem, fieldProblem } from "@redrive/core";
import type { BodySource } from "../bodies/bodies.ts";
import { BODY_LABEL, parseBodyRef } from "../bodies/body-ref.ts";
import type { NewTask } from "../model/task.ts";

/**
 * JSON as received. It is sent byte for byte: parsing and serializing it again would change numbers
 * that JavaScript cannot represent.
 */
export class RawJson {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** The forms of a body. At most one of them may be given. */
export interface BodyInput {
  /**
   * Sent unchanged. A stream or another source of bytes is stored before the task is created; it is
   * read once.
   */
  readonly body?: string | Uint8Array | BodySource;
  readonly bodyBase64?: string;
  /** Sent as JSON, with that content type unless `headers` has one. */
  readonly json?: unknown;
  /** A body that this tenant has stored before: the `bodyRef` of another task or of an upload. */
  readonly bodyRef?: string;
}

/** No message quotes a payload, because it may contain secrets. */
export function bodyProblems(
  input: BodyInput & { readonly method?: string },
): readonly FieldProblem[] {
  const { method, body, bodyBase64, json, bodyRef } = input;
  const bodies = [body, bodyBase64, json, bodyRef].filter((one) => one !== undefined);
  if (bodies.length === 0) return [];
  if (bodies.length > 1)
    return [wrong("body", "only one of body, bodyBase64, json and bodyRef may be given")];
  if (method === "GET" || method === "HEAD") return [wrong("body", `${method} must have no body`)];
  if (bodyBase64 !== undefined && !isBase64(bodyBase64)) {
    return [wrong("bodyBase64", "bodyBase64 must be bytes in Base64")];
  }
  if (bodyRef !== undefined && (typeof bodyRef !== "string" || !parseBodyRef(bodyRef))) {
    const text = "bodyRef must be the bodyRef of a task or of an upload";
    return [fieldProblem("bodyRef", bodyRef, text)];
  }
  if (body === undefined || body instanceof Uint8Array || isBodySource(body)) return [];
  if (typeof body !== "string") return [wrong("body", "body must be a string; use json for JSON")];
  return /\p{Surrogate}/u.test(body)
    ? [wrong("body", "body must be valid Unicode; use bodyBase64 for other bytes")]
    : [];
}

/** A body that arrives in parts. */
export function isBodySource(body: unknown): body is BodySource {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}

function isBase64(text: unknown): boolean {
  return typeof text === "string" && text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}

/** The task with a body in the blob store. By its label, the store knows that the blob is in use. */
export function withBodyRef(task: NewTask, bodyRef: string): NewTask {
  const { blobId = "" } = parseBodyRef(bodyRef) ?? {};
  return { ...task, body: null, bodyRef, labels: { ...task.labels, [BODY_LABEL]: blobId } };
}

/** A body that arrives in parts is stored before; here it counts as none. */
export function bodyOf({ body, bodyBase64, json }: BodyInput): Uint8Array | null {
  if (isBodySource(body)) return null;
  if (body instanceof Uint8Array) return Uint8Array.prototype.slice.call(body);
  if (body !== undefined) return Buffer.from(String(body), "utf8");
  if (bodyBase64 !== undefined) return Buffer.from(bodyBase64, "base64");
  if (json instanceof RawJson) return json.bytes;
  return json === undefined ? null : Buffer.from(JSON.stringify(json), "utf8");
}
