/** Stored body: the input of a task whose body is stored already, and when that body is not needed. */
import { RedriveError } from "@redrive/core";
import type { StoredBody } from "../bodies/bodies.ts";
import type { PlainTaskInput } from "./task-input.ts";

/** The input with its body at the place where it was stored. */
export function withStored(input: PlainTaskInput, { body, bodyRef }: StoredBody): PlainTaskInput {
  const { body: _, bodyBase64: __, json: ___, ...rest } = input;
  return bodyRef === null ? { ...rest, body } : { ...rest, bodyRef };
}

/** Errors after which it is certain that no task was created. */
const REFUSALS: ReadonlySet<string> = new Set([
  "INVALID_ARGUMENT",
  "INVALID_POLICY",
  "IDEMPOTENCY_CONFLICT",
  "IDEMPOTENCY_KEY_REQUIRED",
  "STORE_FULL",
  "STORE_REFUSED",
  "TARGET_DENIED",
  "TARGET_DISABLED",
  "UNKNOWN_POLICY",
]);

export function isRefusal(error: unknown): boolean {
  return error instanceof RedriveError && REFUSALS.has(error.code);
}
