/**
 * Request headers: the headers that an attempt sends. The task's headers were validated when it was
 * created; those that belong to the connection or to the service are omitted here.
 */
import { HOP_HEADER } from "../model/loop-detection.ts";
import type { Headers } from "../model/task.ts";
import type { WebhookHeaders } from "./signing.ts";
import { isTraceparent } from "./trace.ts";

/** Headers of an attempt that the service sets. */
export interface OwnHeaders {
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
export interface OverriddenHeaders {
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
