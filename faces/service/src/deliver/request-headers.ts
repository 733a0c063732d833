/**
 * Request headers: what an attempt sends besides its body. The task's own headers were checked when
 * it was created; here those are left out that belong to the connection or to us.
 */
import { HOP_HEADER } from "../model/hop.ts";
import type { Headers } from "../model/task.ts";
import { isTraceparent } from "./trace.ts";

/** Headers of an attempt that are not the task's. */
export interface OwnHeaders {
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  /** The same at every attempt; null: the task's id serves. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
  readonly traceparent: string;
  /** How many Redrives the request has come through: a loop is seen by its growth. */
  readonly hop: number;
}

/** A connection's own (RFC 9110 7.6.1), those undici writes, and those set here. */
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

/** What of our own headers a task brings itself. */
export interface OverriddenHeaders {
  idempotencyKey?: string;
  requestId?: string;
  traceparent?: string;
}

const NO_OVERRIDES: OverriddenHeaders = {};

/** The caller's words win over ours: its trace goes on, and its key is known at the target. */
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

/** Name, value, name, value: the form that undici takes without looking twice. */
export function requestHeaders(task: Headers, own: OwnHeaders, signature?: Headers): string[] {
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
    // What is not asked for need not be inflated: no bomb, and the log shows what was sent.
    "accept-encoding",
    "identity",
  ];
  appendTask(flat, task);
  for (const [name, value] of Object.entries(signature ?? {})) flat.push(name, value);
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
