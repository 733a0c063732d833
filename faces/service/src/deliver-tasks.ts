/**
 * Deliver tasks: prepares the attempt of a task and sends it: its secret headers are decrypted, and its
 * body is opened if it is in the blob store. An attempt that cannot be prepared sends nothing.
 */
import type { Clock } from "@redrive/core";
import { blobErrorOf } from "./bodies/blob-store.ts";
import type { Bodies } from "./bodies/bodies.ts";
import { type AttemptResult, notStarted } from "./deliver/attempt-result.ts";
import type { Deliverer, DeliverRequest } from "./deliver/deliverer.ts";
import { bodyFailure } from "./deliver/failure.ts";
import { createSigner, type SigningKey, type WebhookHeaders } from "./deliver/signing.ts";
import type { Deliver, DeliveryLimits } from "./engine/run/deliver-function.ts";
import type { Secrets } from "./intake/secrets.ts";
import { signingKeys } from "./intake/signing-keys.ts";
import type { StartedTask } from "./model/batch.ts";
import type { Headers } from "./model/task.ts";

export interface DeliverParts {
  readonly clock: Clock;
  readonly deliverer: Deliverer;
  readonly secrets: Secrets;
  readonly bodies: Bodies;
}

export function deliverTasks(parts: DeliverParts): Deliver {
  const { deliverer, secrets } = parts;
  const signingKeysOf = signingKeys(secrets);
  return (task, limits, done) => {
    const headers = secrets.openHeaders(task);
    const keys = signingKeysOf(task, limits.delivery);
    if (headers === null || keys === null) {
      const missing = headers === null ? NO_SECRET : NO_SIGNING_SECRET;
      void Promise.resolve(notStarted({ kind: "fault" }, missing)).then(done);
      return;
    }
    // It rejects only for an invalid request, which a retry would not change.
    const fail = (error: unknown) => {
      const errorMessage = error instanceof Error ? error.message : String(error);
      done(notStarted({ kind: "fault" }, { errorClass: "invalid-request", errorMessage }));
    };
    const sent =
      task.bodyRef === null
        ? deliverer.deliver(requestOf(task, headers, keys), limits)
        : deliverWithBlob(parts, { ...task, headers, signingKeys: keys }, limits);
    void sent.then(done, fail);
  };
}

/** Without secrets, the task itself. The other fields of a task are not copied: that costs time. */
function requestOf(
  task: StartedTask,
  headers: Headers,
  keys: readonly SigningKey[],
): DeliverRequest {
  if (headers === task.headers && keys.length === 0) return task;
  const { tenantId, taskId, attemptNumber, targetUrl, method, body, idempotencyKey } = task;
  return {
    tenantId,
    taskId,
    attemptNumber,
    targetUrl,
    method,
    headers,
    body,
    idempotencyKey,
    signingKeys: keys,
  };
}

type BlobRequest = StartedTask & Pick<DeliverRequest, "signingKeys">;

/** The time until the body is signed and open is part of the attempt. */
async function deliverWithBlob(
  { clock, deliverer, bodies }: DeliverParts,
  request: BlobRequest,
  limits: DeliveryLimits,
): Promise<AttemptResult> {
  const endMs = clock.monotonicMs() + limits.attemptTimeoutMs;
  const leftMs = () => Math.max(1, Math.floor(endMs - clock.monotonicMs()));
  const opened = await openBlob({ clock, bodies, request, limits, leftMs });
  if (!("stream" in opened)) return opened;
  const attemptTimeoutMs = leftMs();
  const connectTimeoutMs = Math.min(limits.connectTimeoutMs, attemptTimeoutMs);
  try {
    const options = { ...limits, attemptTimeoutMs, connectTimeoutMs };
    return await deliverer.deliver({ ...request, ...opened }, options);
  } finally {
    opened.stream.stream.destroy();
  }
}

interface Opening {
  readonly clock: Clock;
  readonly bodies: Bodies;
  readonly request: BlobRequest;
  readonly limits: DeliveryLimits;
  /** The time that the attempt has left. */
  readonly leftMs: () => number;
}

/** The body and its signature, or the result of an attempt that sent nothing. */
async function openBlob(
  opening: Opening,
): Promise<AttemptResult | Required<Pick<DeliverRequest, "stream">>> {
  const { bodies, request, limits, leftMs } = opening;
  try {
    const signature = await signedBlob(opening);
    const timeoutMs = Math.min(OPEN_MS, leftMs());
    const stream = await inTime(opening, timeoutMs, (abort) => bodies.open(request, abort));
    return { stream, ...(signature && { signature }) };
  } catch (error) {
    if (limits.signal.aborted) return notStarted({ kind: "aborted" }, null);
    const failure = bodyFailure(blobErrorOf(error, "the body could not be opened"), false);
    return notStarted({ kind: "fault" }, failure);
  }
}

/** A blob store that takes longer to open a body is not available. */
const OPEN_MS = 5000;

/** The signature is a header, so the whole body is read once before it is sent. */
function signedBlob(opening: Opening): Promise<WebhookHeaders | undefined> {
  const { bodies, request, limits, leftMs } = opening;
  const { signingKeys: keys = [], taskId: id } = request;
  if (keys.length === 0) return Promise.resolve(undefined);
  return inTime(opening, leftMs(), async (abort) => {
    const signer = createSigner(keys, { id, now: limits.now });
    const { stream } = await bodies.open(request, abort);
    const stop = () => stream.destroy(abort.reason);
    abort.addEventListener("abort", stop, { once: true });
    for await (const part of stream) signer.update(part as Uint8Array);
    return signer.headers();
  });
}

/** Aborts `work` after that time, or with the attempt. */
async function inTime<T>(
  { clock, limits: { signal } }: Opening,
  timeoutMs: number,
  work: (abort: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const stop = () => abort.abort(new Error("the blob store did not respond in time"));
  const cancel = clock.alarm(timeoutMs, stop, true);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await work(abort.signal);
  } finally {
    cancel();
    signal.removeEventListener("abort", stop);
  }
}

const NO_SIGNING_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a signing secret of the destination cannot be decrypted: its key is not in REDRIVE_ENCRYPTION_KEY",
} as const;

const NO_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a header of the task cannot be decrypted: its key is not in REDRIVE_ENCRYPTION_KEY",
} as const;
