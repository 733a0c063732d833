/**
 * Hop headers: headers that tell a server that its caller retries, and how much time the caller has
 * left. We send our own, and read those of the AWS SDKs, gRPC, Envoy and Stainless as well.
 */
import { invalidArgument } from "@redrive/core";
import type { RetryLayer } from "../call/retry-layer.ts";

export const ATTEMPT_HEADER = "Redrive-Attempt";
export const REMAINING_HEADER = "Redrive-Remaining-Ms";

/** Headers in any of the forms that servers provide. */
export type HeadersLike =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Reads one header from any form. Plain objects must have lowercase names. */
export function readHeader(headers: HeadersLike, name: string): string | undefined {
  if (typeof headers.get === "function") return headers.get(name) ?? undefined;
  const value = (headers as Readonly<Record<string, string | readonly string[] | undefined>>)[
    name.toLowerCase()
  ];
  return typeof value === "string" || value === undefined ? value : value[0];
}

/** The layer that sent a request, as its headers describe it. */
export function callerLayer(headers: HeadersLike, now: number, minRemainingMs = 0): RetryLayer {
  const leftMs = remainingMs(headers);
  return {
    location: "caller",
    retries: isRetried(headers),
    deadlineAt: leftMs === undefined ? undefined : now + Math.max(minRemainingMs, leftMs),
  };
}

/**
 * Whether the headers prove that their client retries. A service mesh adds a count of 1 to every request,
 * and some clients count from 0.
 */
function isRetried(headers: HeadersLike): boolean {
  // Only a layer that retries sends it.
  if (readHeader(headers, ATTEMPT_HEADER) !== undefined) return true;
  if (attemptNumber(headers) > 1) return true;
  // "attempt=1; max=3": an AWS SDK that makes only one attempt sends max=1.
  const max = /\bmax=(\d{1,4})\b/.exec(readHeader(headers, "amz-sdk-request") ?? "");
  return Number(max?.[1] ?? 1) > 1;
}

/**
 * Whose headers about attempts and time are believed: those of nobody, of everybody, or of the requests
 * for which a function returns true, such as those of your own services.
 */
export type Trust<Request> = "none" | "all" | ((request: Request) => boolean);

/** Throws unless it is one of the three. */
export function assertTrust(trust: unknown): void {
  if (trust === "none" || trust === "all" || typeof trust === "function") return;
  throw invalidArgument("trust must be none, all or a function", trust);
}

export function isTrusted<Request>(trust: Trust<Request>, request: Request): boolean {
  return typeof trust === "function" ? trust(request) : trust === "all";
}

/** Which attempt a request is, from 1, as far as its client says. */
export function attemptNumber(headers: HeadersLike): number {
  const own = parseCount(headers, ATTEMPT_HEADER);
  if (own !== undefined) return Math.max(1, own);
  const aws = /\battempt=(\d{1,4})\b/.exec(readHeader(headers, "amz-sdk-request") ?? "");
  // A mesh between us and a client that retries counts its own attempts.
  return Math.max(
    1,
    parseCount(headers, "x-envoy-attempt-count") ?? 0,
    1 + (parseCount(headers, "grpc-previous-rpc-attempts") ?? 0),
    1 + (parseCount(headers, "x-stainless-retry-count") ?? 0),
    Number(aws?.[1] ?? 1),
  );
}

function parseCount(headers: HeadersLike, name: string): number | undefined {
  const text = readHeader(headers, name);
  return text !== undefined && /^\d{1,4}$/.test(text) ? Number(text) : undefined;
}

/** gRPC's time units in ms. */
const GRPC_UNITS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 0.001,
  n: 0.000001,
};

function remainingMs(headers: HeadersLike): number | undefined {
  const own = parseMs(readHeader(headers, REMAINING_HEADER));
  if (own !== undefined) return own;
  const grpc = /^(\d{1,8})([HMSmun])$/.exec(readHeader(headers, "grpc-timeout") ?? "");
  if (grpc) return Math.floor(Number(grpc[1]) * (GRPC_UNITS[grpc[2] ?? ""] ?? 0));
  return parseMs(readHeader(headers, "x-envoy-expected-rq-timeout-ms"));
}

/** At most eleven digits (three years), so that a sum with an instant stays exact. */
function parseMs(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,11}$/.test(text) ? Number(text) : undefined;
}
