/**
 * Deliver stored body: sends an attempt whose body is in the blob store: reads it once to sign it, if the
 * attempt is signed, opens it, and sends it. All of this is part of the time of the attempt.
 */
import type { Clock } from "@redrive/core";
import { blobErrorOf } from "./bodies/blob-store.ts";
import type { Bodies } from "./bodies/bodies.ts";
import { type AttemptResult, notStarted } from "./deliver/attempt-result.ts";
import type { Deliverer, DeliverRequest } from "./deliver/deliverer.ts";
import { bodyFailure } from "./deliver/failure.ts";
import { createSigner, type SigningKey, type WebhookHeaders } from "./deliver/signing.ts";
import type { DeliveryLimits } from "./engine/run/deliver-function.ts";
import type { StartedTask } from "./model/batch.ts";

export interface StoredBodyParts {
  readonly clock: Clock;
  readonly deliverer: Pick<Deliverer, "deliver">;
  readonly bodies: Pick<Bodies, "open">;
}

/** What to send, and where its body is. */
export type TaskRequest = DeliverRequest &
  Pick<StartedTask, "tenantId" | "bodyRef"> & {
    /** They sign a body in the blob store. */
    readonly signingKeys?: readonly SigningKey[];
  };

/** The time until the body is signed and open is part of the attempt. */
export async function deliverStoredBody(
  { clock, deliverer, bodies }: StoredBodyParts,
  request: TaskRequest,
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

interface Opening extends Pick<StoredBodyParts, "clock" | "bodies"> {
  readonly request: TaskRequest;
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
    if (abort.aborted) stop();
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
  if (signal.aborted) stop();
  try {
    return await work(abort.signal);
  } finally {
    cancel();
    signal.removeEventListener("abort", stop);
  }
}
