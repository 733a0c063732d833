/**
 * Hop headers: how a request says that a retrying layer stands above it, and how much time that
 * layer has left. We write our own and understand those of the AWS SDKs, gRPC, Envoy and Stainless.
 */
import type { Layer } from "./layer.ts";

export const ATTEMPT_HEADER = "Redrive-Attempt";
export const REMAINING_HEADER = "Redrive-Remaining-Ms";

/** Headers in any of the forms servers hand them out in. */
export type HeadersLike =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Reads one header, whatever the form; names of plain objects are taken in small letters. */
export function readHeader(headers: HeadersLike, name: string): string | undefined {
  if (isGetter(headers)) return headers.get(name) ?? undefined;
  const value = headers[name.toLowerCase()];
  return typeof value === "string" || value === undefined ? value : value[0];
}

function isGetter(headers: HeadersLike): headers is Extract<HeadersLike, { get: unknown }> {
  return typeof (headers as { get?: unknown }).get === "function";
}

/** The retrying layer that sent a request, if its headers tell of one. */
export function layerOf(headers: HeadersLike, now: number): Layer {
  const remainingMs = remainingOf(headers);
  return {
    where: "caller",
    retries: isRetried(headers),
    deadlineAt: remainingMs === undefined ? undefined : now + remainingMs,
  };
}

/** Each of these is sent only by a client that would repeat the request by itself. */
const RETRY_HEADERS: readonly string[] = [
  ATTEMPT_HEADER,
  "grpc-previous-rpc-attempts",
  "x-envoy-attempt-count",
  "x-stainless-retry-count",
];

function isRetried(headers: HeadersLike): boolean {
  const has = (name: string) => readHeader(headers, name) !== undefined;
  if (RETRY_HEADERS.some(has)) return true;
  // "attempt=1; max=3": an AWS SDK that is told to make one attempt says so.
  const aws = readHeader(headers, "amz-sdk-request");
  return aws !== undefined && !/\bmax=1\b/.test(aws);
}

/** gRPC's units of time, in ms. */
const GRPC_UNITS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 0.001,
  n: 0.000001,
};

function remainingOf(headers: HeadersLike): number | undefined {
  const own = wholeMs(readHeader(headers, REMAINING_HEADER));
  if (own !== undefined) return own;
  const grpc = /^(\d{1,8})([HMSmun])$/.exec(readHeader(headers, "grpc-timeout") ?? "");
  if (grpc) return Math.floor(Number(grpc[1]) * (GRPC_UNITS[grpc[2] ?? ""] ?? 0));
  return wholeMs(readHeader(headers, "x-envoy-expected-rq-timeout-ms"));
}

/** At most eleven digits (three years), so that a sum with an instant stays exact. */
function wholeMs(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,11}$/.test(text) ? Number(text) : undefined;
}
