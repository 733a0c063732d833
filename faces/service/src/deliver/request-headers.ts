/**
 * Request headers: the headers that an attempt sends. The task's headers were validated when it was
 * created; those that belong to the connection or to the service are omitted here.
 */
import { systemBytes } from "@redrive/core";
import type { Headers } from "../model/task.ts";
import { HOP_HEADER } from "../model/task-headers.ts";
import type { WebhookHeaders } from "./signing.ts";

/** Headers of an attempt that the service sets. */
interface OwnHeaders {
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  /** The same for every attempt; null: the task's id is used. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
  readonly traceparent: string;
  /** How many Redrive services the request has passed through; a loop makes it grow. */
  readonly hop: number;
}

/** Headers of the connection (RFC 9110 7.6.1), those that undici writes, and those set here. */
const OMITTED = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "idempotency-key",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "traceparent",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "webhook-id",
  "webhook-signature",
  "webhook-timestamp",
  "x-request-id",
]);

/** The service's headers for which a task brings its own value. */
interface OverriddenHeaders {
  idempotencyKey?: string;
  requestId?: string;
  traceparent?: string;
}

const NO_OVERRIDES: OverriddenHeaders = {};

/** The caller's values win: its trace continues, and the target knows its key. */
export function overridesIn(task: Headers): OverriddenHeaders {
  let given = NO_OVERRIDES;
  for (const [name, value] of Object.entries(task)) {
    const field = OVERRIDABLE[name.toLowerCase()];
    if (field === undefined || value === "") continue;
    if (field !== "traceparent" || isTraceparent(value)) given = { ...given, [field]: value };
  }
  return given;
}

const OVERRIDABLE: Readonly<Record<string, keyof OverriddenHeaders>> = Object.assign(
  Object.create(null),
  {
    "idempotency-key": "idempotencyKey",
    "x-request-id": "requestId",
    traceparent: "traceparent",
  },
);

/** Alternating names and values, the form that undici takes without conversion. */
export function requestHeaders(
  task: Headers,
  own: OwnHeaders,
  signature?: WebhookHeaders,
): string[] {
  const flat = [
    "idempotency-key",
    own.idempotencyKey ?? own.taskId,
    "redrive-task-id",
    own.taskId,
    "redrive-attempt",
    String(own.attemptNumber),
    HOP_HEADER,
    String(own.hop),
    "traceparent",
    own.traceparent,
    "x-request-id",
    own.requestId,
    // An uncompressed response needs no decompression: no zip bomb, and the log shows what was
    // sent.
    "accept-encoding",
    "identity",
  ];
  appendTask(flat, task);
  if (signature === undefined) return flat;
  for (const [name, value] of Object.entries(signature)) flat.push(name, value);
  return flat;
}

function appendTask(flat: string[], task: Headers): void {
  let hasAgent = false;
  for (const [name, value] of Object.entries(task)) {
    const lower = name.toLowerCase();
    if (OMITTED.has(lower) || lower.startsWith("redrive-")) continue;
    if (lower === "user-agent") hasAgent = true;
    flat.push(name, value);
  }
  if (!hasAgent) flat.push("user-agent", "Redrive");
}

// Trace: the W3C `traceparent` of an attempt. All attempts of a task have one trace id: that of the
// caller, or the task's own id. Each attempt is a span of its own.

/** Random lower-case hex of the given number of bytes. Injected, like all randomness. */
export type HexSource = (bytes: number) => string;

/** A UUID has as many digits as a trace id. */
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * The `traceparent` of one attempt: version 00, the trace id and the flags of the caller's valid
 * `traceparent`, or the task's id and sampled, with a new span id.
 */
export function attemptTraceparent(
  parent: string | undefined,
  taskId: string,
  hex: HexSource,
): string {
  if (parent !== undefined) return `00-${parent.slice(3, 35)}-${hex(8)}-${parent.slice(53, 55)}`;
  const traceId = UUID.test(taskId) ? withoutHyphens(taskId) : hex(16);
  return `00-${traceId}-${hex(8)}-01`;
}

function withoutHyphens(uuid: string): string {
  const start = uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18);
  return start + uuid.slice(19, 23) + uuid.slice(24);
}

/** True for a valid value (W3C Trace Context, any version of this format). */
export function isTraceparent(text: string): boolean {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
}

/** Drawn and converted in bulk; doing so per attempt would cost as much as the attempt. */
const POOL_BYTES = 6144;

/** The system's random source. Suitable for ids, not for keys. */
export function cryptoHex(): HexSource {
  let digits = "";
  let used = 0;
  return (bytes) => {
    if (used + bytes * 2 > digits.length) {
      digits = Buffer.from(systemBytes(Math.max(POOL_BYTES, bytes))).toString("hex");
      used = 0;
    }
    used += bytes * 2;
    return digits.slice(used - bytes * 2, used);
  };
}
