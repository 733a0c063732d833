/**
 * Fingerprint: what an idempotency key stands for. A second request with the same key must have the
 * same fingerprint.
 */
import { parseBodyRef } from "../bodies/body-ref.ts";
import type { NewTask } from "../model/task.ts";

/** Headers that may differ between two requests with the same meaning. */
const VOLATILE_HEADERS = /^(traceparent|tracestate|baggage|date|x-request-id|idempotency-key)$/i;

/** What an idempotency key stands for: two requests with one key must agree in all of it. */
export function fingerprintParts(task: NewTask): readonly (string | Uint8Array)[] {
  const headers = Object.entries(task.headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .map(([name, value]) => `${name.toLowerCase()}:${value}`)
    .sort();
  const text = JSON.stringify([task.method, task.targetUrl, task.policyId, headers]);
  if (task.bodyRef !== null) return [text, ...blobParts(task.bodyRef)];
  return task.body === null ? [text] : [text, task.body];
}

/** The bytes count, not their name: a repeated upload has another name. */
function blobParts(bodyRef: string): readonly string[] {
  const { length, sha256 } = parseBodyRef(bodyRef) ?? {};
  return [`\n${length}\n${sha256}`];
}
