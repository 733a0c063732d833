/** Attempt outcome: the outcome of an attempt as one of a few words, for metrics. */
import { statusText } from "@redrive/core";
import type { AttemptSummary } from "./engine-event.ts";

/** `success`, the class of an HTTP status such as `5xx`, a gRPC code, a class of errors, or a kind. */
export function outcomeLabel({ outcome, responseStatus, errorClass }: AttemptSummary): string {
  if (outcome === "status" && responseStatus !== null)
    return `${Math.floor(responseStatus / 100)}xx`;
  if (outcome === "grpc" && responseStatus !== null) return statusText(responseStatus);
  return errorClass ?? outcome;
}
