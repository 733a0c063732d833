/**
 * Call request: what core is told of a call before it decides: the caller's options, and the
 * deadline of the layer above if that comes first.
 */
import type { CallRequest } from "@redrive/core";
import type { CallOptions } from "./options.ts";

export function requestOf<T>(options: CallOptions<T>, outerAt: number | undefined): CallRequest {
  const { method, idempotent, idempotencyKey, deadlineAt, patience } = options;
  const endAt = outerAt === undefined ? deadlineAt : Math.min(outerAt, deadlineAt ?? outerAt);
  return {
    ...(method !== undefined && { method }),
    ...(idempotent !== undefined && { idempotent }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(endAt !== undefined && { deadlineAt: endAt }),
    ...(patience !== undefined && { patience }),
  };
}
