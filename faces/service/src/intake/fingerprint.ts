/**
 * Fingerprint: what an idempotency key stands for. A second request with the same key must have the
 * same fingerprint.
 */
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
  return task.body === null ? [text] : [text, task.body];
}
