/** Bytes body: bytes as the body of a task that is sent as JSON. */
import { isUtf8 } from "node:buffer";
import type { TaskToCreate } from "@redrive/service/client";

/** A longer body is uploaded before, because a create may have at most 1 MiB in all. */
export const MAX_SENT_BYTES: number = 512 * 1024;

/** Bytes that are not UTF-8 text are sent as Base64, which preserves them. */
export function bytesBody(bytes: Buffer): Pick<TaskToCreate, "body" | "bodyBase64"> {
  return isUtf8(bytes)
    ? { body: bytes.toString("utf8") }
    : { bodyBase64: bytes.toString("base64") };
}
