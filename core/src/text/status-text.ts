/**
 * Status text: a stored status for people. It is the status of an HTTP response, or the number of a gRPC
 * code, which is smaller than every HTTP status.
 */
import { GRPC_CODES } from "../policy/error-classes.ts";

/** The number of an HTTP status, or the name of a gRPC code. */
export function statusText(status: number): string {
  return GRPC_CODES[status] ?? String(status);
}
