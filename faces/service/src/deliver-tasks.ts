/**
 * Deliver tasks: prepares the attempt of a task and sends it: its secret headers are decrypted, it is
 * signed if its destination has signing secrets, and its body is opened if it is in the blob store. An
 * attempt that cannot be prepared sends nothing.
 */
import { type Clock, messageOf } from "@redrive/core";
import { blobErrorOf } from "./bodies/blob-store.ts";
import type { Bodies } from "./bodies/bodies.ts";
import { type AttemptResult, notStarted } from "./deliver/attempt.ts";
import type { Deliverer, DeliverRequest } from "./deliver/deliverer.ts";
import { bodyFailure } from "./deliver/failure.ts";
import {
  createSigner,
  messageIdOf,
  type SigningKey,
  signWebhook,
  type WebhookHeaders,
} from "./deliver/signing.ts";
import type { Deliver, DeliveryLimits } from "./engine/runner.ts";
import { hasSealed, type Secrets, signingKeys } from "./intake/secrets.ts";
import type { StartedTask } from "./model/batch.ts";
import type { Headers } from "./model/task.ts";

export interface DeliverParts extends StoredBodyParts {
  readonly secrets: Secrets;
}

export function deliverTasks(parts: DeliverParts): Deliver {
  const signingKeysOf = signingKeys(parts.secrets);
  const secured = new SecuredAttempts(parts);
  return (task, limits, done) => {
    const keys = signingKeysOf(task, limits.delivery);
    const isSealed = hasSealed(task.headers);
    if (keys === null) refuse(done, NO_SIGNING_SECRET);
    else if (isSealed || keys.length > 0) secured.add({ task, limits, done, keys });
    else send(parts, task, limits, done);
  };
}

type Done = Parameters<Deliver>[2];

/** An attempt whose headers are encrypted, or that is signed. */
interface SecuredAttempt {
  readonly task: StartedTask;
  readonly limits: DeliveryLimits;
  readonly done: Done;
  readonly keys: readonly SigningKey[];
}

/**
 * Prepares the attempts that the engine starts in one go together, in the microtask after it: first all
 * are decrypted, then all are signed, then all are sent. In a benchmark, this took less time than
 * preparing each one before its request.
 */
class SecuredAttempts {
  readonly #parts: DeliverParts;

  /** Mutable state: what the microtask sends. */
  #waiting: SecuredAttempt[] = [];

  constructor(parts: DeliverParts) {
    this.#parts = parts;
  }

  add(attempt: SecuredAttempt): void {
    if (this.#waiting.push(attempt) === 1) void Promise.resolve().then(() => this.#sendAll());
  }

  #sendAll(): void {
    const attempts = this.#waiting;
    this.#waiting = [];
    const { secrets } = this.#parts;
    const headers = attempts.map(orUnprepared(({ task }) => secrets.openHeaders(task)));
    const signatures = attempts.map(orUnprepared(signInline));
    for (const [index, attempt] of attempts.entries()) {
      const { limits, done } = attempt;
      const opened = headers[index];
      const signature = signatures[index];
      if (opened instanceof Unprepared) endSoon(done, opened.result);
      else if (signature instanceof Unprepared) endSoon(done, signature.result);
      else if (opened) send(this.#parts, securedRequest(attempt, opened, signature), limits, done);
      else refuse(done, NO_SECRET);
    }
  }
}

/** How an attempt ends that could not be prepared. */
class Unprepared {
  readonly result: AttemptResult;

  constructor(error: unknown) {
    this.result = invalid(error);
  }
}

/** The same function with its error as a value, so that it affects no other attempt. */
function orUnprepared<T>(
  prepare: (attempt: SecuredAttempt) => T,
): (attempt: SecuredAttempt) => T | Unprepared {
  return (attempt) => {
    try {
      return prepare(attempt);
    } catch (error) {
      return new Unprepared(error);
    }
  };
}

/** A body in the blob store is signed when it is opened. */
function signInline({ task, keys, limits }: SecuredAttempt): WebhookHeaders | undefined {
  if (keys.length === 0 || task.bodyRef !== null) return undefined;
  return signWebhook(keys, { id: messageIdOf(task), now: limits.now, body: task.body ?? NO_BODY });
}

const NO_BODY = new Uint8Array(0);

/** Only what is sent: copying the other fields of a task costs time. */
function securedRequest(
  { task, keys }: SecuredAttempt,
  headers: Headers,
  signature: WebhookHeaders | undefined,
): TaskRequest {
  const { tenantId, taskId, attemptNumber, targetUrl, method, body, bodyRef, idempotencyKey } =
    task;
  return {
    tenantId,
    taskId,
    attemptNumber,
    targetUrl,
    method,
    headers,
    body,
    bodyRef,
    idempotencyKey,
    signingKeys: keys,
    signature,
  };
}

function send(parts: DeliverParts, request: TaskRequest, limits: DeliveryLimits, done: Done): void {
  const fail = (error: unknown) => done(invalid(error));
  void begin(parts, request, limits).then(done, fail);
}

function begin(
  parts: DeliverParts,
  request: TaskRequest,
  limits: DeliveryLimits,
): Promise<AttemptResult> {
  try {
    return request.bodyRef === null
      ? parts.deliverer.deliver(request, limits)
      : deliverStoredBody(parts, request, limits);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Only an invalid request throws, which a retry would not change. */
function invalid(error: unknown): AttemptResult {
  const failure = { errorClass: "invalid-request", errorMessage: messageOf(error) } as const;
  return notStarted({ kind: "fault" }, failure);
}

function refuse(done: Done, missing: typeof NO_SECRET | typeof NO_SIGNING_SECRET): void {
  endSoon(done, notStarted({ kind: "fault" }, missing));
}

function endSoon(done: Done, result: AttemptResult): void {
  void Promise.resolve(result).then(done);
}

const NO_SIGNING_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a signing secret of the destination cannot be decrypted: its key is not in encryptionKey (REDRIVE_ENCRYPTION_KEY) of this node",
} as const;

const NO_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a header of the task cannot be decrypted: its key is not in encryptionKey (REDRIVE_ENCRYPTION_KEY) of this node",
} as const;

// Deliver stored body: sends an attempt whose body is in the blob store: reads it once to sign it,
// if the attempt is signed, opens it, and sends it. All of this is part of the time of the attempt.

interface StoredBodyParts {
  readonly clock: Clock;
  readonly deliverer: Pick<Deliverer, "deliver">;
  readonly bodies: Pick<Bodies, "open">;
}

/** What to send, and where its body is. */
type TaskRequest = DeliverRequest &
  Pick<StartedTask, "tenantId" | "bodyRef"> & {
    /** They sign a body in the blob store. */
    readonly signingKeys?: readonly SigningKey[];
  };

/** The time until the body is signed and open is part of the attempt. */
async function deliverStoredBody(
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
  const { signingKeys: keys = [] } = request;
  if (keys.length === 0) return Promise.resolve(undefined);
  return inTime(opening, leftMs(), async (abort) => {
    const signer = createSigner(keys, { id: messageIdOf(request), now: limits.now });
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
