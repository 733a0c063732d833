/**
 * Envoy conditions: the words of `retry_on`, each with the failures that it means in a policy.
 * `envoy-config.ts` reads with this table, and `envoy-export.ts` writes with it.
 */

import { nearestName } from "../documents/nearest-name.ts";
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";
import {
  ERROR_CLASSES,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
} from "../policy/error-classes.ts";
import { statusRange } from "../policy/status-range.ts";

/** What a condition of Envoy retries. */
interface Condition {
  readonly statuses?: readonly number[];
  readonly errors?: readonly ErrorClass[];
  readonly code?: GrpcCode;
  /** A full sentence, if the condition means more than a policy can express. */
  readonly note?: string;
}

/** What Envoy counts as no response: reset, refused, timed out, or never connected. */
export const NO_RESPONSE: readonly ErrorClass[] = ["timeout", "connect", "reset", "protocol"];

export const SERVER_ERRORS: readonly number[] = statusRange(500, 599);

const CONDITIONS: Readonly<Record<string, Condition>> = {
  "5xx": { statuses: SERVER_ERRORS, errors: NO_RESPONSE },
  "gateway-error": { statuses: [502, 503, 504], errors: NO_RESPONSE },
  reset: { errors: NO_RESPONSE },
  "reset-before-request": {
    errors: ["connect"],
    note: "reset-before-request became connect: Redrive repeats calls that were certainly not sent.",
  },
  "connect-failure": { errors: ["connect"] },
  "refused-stream": { errors: ["protocol"] },
  "retriable-4xx": { statuses: [409] },
  "retriable-status-codes": {},
  "retriable-headers": {
    note: "retriable-headers reads headers, which a policy does not; left out.",
  },
  "envoy-ratelimited": { note: "envoy-ratelimited is Envoy's own header; left out." },
  "http3-post-connect-failure": { note: "http3-post-connect-failure is about HTTP/3; left out." },
  cancelled: {
    code: "CANCELLED",
    note: "Redrive never repeats CANCELLED, because the caller asked for it.",
  },
  "deadline-exceeded": { code: "DEADLINE_EXCEEDED" },
  internal: { code: "INTERNAL" },
  "resource-exhausted": { code: "RESOURCE_EXHAUSTED" },
  unavailable: { code: "UNAVAILABLE" },
};

/** The conditions in a comma-separated text, in its order. */
export function readConditions(retryOn: string): readonly string[] {
  const words = retryOn.split(",").map((word) => word.trim());
  return words.filter((word) => word !== "").map(checkCondition);
}

function checkCondition(word: string): string {
  if (Object.hasOwn(CONDITIONS, word)) return word;
  const near = nearestName(word, Object.keys(CONDITIONS));
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  const text = `retry_on must name conditions of Envoy, got ${quote(word)}${hint}`;
  throw new RedriveError("INVALID_IMPORT", text);
}

/** The combined result of several conditions; each status, class and code once, in order. */
export interface Retried {
  readonly statuses: readonly number[];
  readonly errors: readonly ErrorClass[];
  readonly codes: readonly GrpcCode[];
}

export function retriedBy(words: readonly string[], notes: string[]): Retried {
  const conditions = words.map((word) => CONDITIONS[word] ?? {});
  for (const { note } of conditions) if (note !== undefined) notes.push(note);
  const statuses = conditions.flatMap((condition) => condition.statuses ?? []);
  const errors = conditions.flatMap((condition) => condition.errors ?? []);
  const codes = conditions.map((condition) => condition.code);
  return {
    statuses: sorted(statuses),
    errors: ERROR_CLASSES.filter((name) => errors.includes(name)),
    codes: GRPC_CODES.filter((code) => codes.includes(code)),
  };
}

/** Each number once, ascending. */
export function sorted(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].sort((one, other) => one - other);
}

/** Envoy's word for a gRPC code; undefined if it has none. */
export function conditionFor(code: GrpcCode): string | undefined {
  return Object.keys(CONDITIONS).find((word) => CONDITIONS[word]?.code === code);
}
