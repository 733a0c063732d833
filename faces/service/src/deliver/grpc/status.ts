/**
 * Status: the gRPC code of a response, and its outcome for core. A response without a code gets one from
 * its HTTP status, as in every gRPC client
 * (https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md).
 */
import {
  GRPC_CODES,
  type GrpcCode,
  type Outcome,
  parsePushback,
  recordedOutcome,
} from "@redrive/core";

const OF_HTTP_STATUS: ReadonlyMap<number, GrpcCode> = new Map([
  [400, "INTERNAL"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "UNIMPLEMENTED"],
  [429, "UNAVAILABLE"],
  [502, "UNAVAILABLE"],
  [503, "UNAVAILABLE"],
  [504, "UNAVAILABLE"],
]);

/** The code of an HTTP response that has none. */
export function codeOfHttpStatus(status: number): GrpcCode {
  return OF_HTTP_STATUS.get(status) ?? "UNKNOWN";
}

/** The code in a `grpc-status`. A value that is not the number of a code is UNKNOWN. */
export function readGrpcStatus(text: string): GrpcCode {
  return (/^\d{1,2}$/.test(text) && GRPC_CODES[Number(text)]) || "UNKNOWN";
}

export function numberOf(code: GrpcCode): number {
  return GRPC_CODES.indexOf(code);
}

/** The outcome of a code, with all `grpc-retry-pushback-ms` of the response. */
export function codeOutcome(code: GrpcCode, pushback: readonly string[]): Outcome {
  const outcome = recordedOutcome(numberOf(code));
  const hint = pushback.length === 0 ? undefined : parsePushback(pushback.join());
  if (hint === undefined || outcome.kind === "success") return outcome;
  return hint === "refused" ? { ...outcome, refused: true } : { ...outcome, retryAfterMs: hint };
}
