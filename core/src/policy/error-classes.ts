/** Error classes: the failures that a policy can name in addition to HTTP status codes. */

/** Classes of failure below HTTP. */
export type ErrorClass = "timeout" | "connect" | "reset" | "dns" | "tls" | "protocol";

export const ERROR_CLASSES: readonly ErrorClass[] = [
  "timeout",
  "connect",
  "reset",
  "dns",
  "tls",
  "protocol",
];

/** The gRPC codes, at the index of their number. */
export const GRPC_CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

export type GrpcCode = (typeof GRPC_CODES)[number];
