/**
 * Signing: Standard Webhooks signatures (https://www.standardwebhooks.com), so that a target can
 * authenticate our requests. A signature covers the message's id, the attempt's timestamp and the
 * exact bytes of the body. While secrets rotate, every secret signs.
 */
import {
  createHmac,
  createSecretKey,
  type Hmac,
  type KeyObject,
  timingSafeEqual,
} from "node:crypto";
import {
  BAD_SIGNING_SECRET,
  RedriveError,
  readWebhook,
  signingSecretBase64,
  type UnverifiedWebhook,
  type WebhookVerdict,
} from "@redrive/core";
import type { NewTask } from "../model/task.ts";

/** What is signed. */
interface WebhookMessage {
  /** The same for every attempt and redrive. It has no dot, because a dot separates it from the timestamp. */
  readonly id: string;
  /** The time of this attempt; epoch ms. */
  readonly now: number;
  readonly body: Uint8Array;
}

export interface WebhookHeaders {
  readonly "webhook-id": string;
  /** Whole seconds since 1970. */
  readonly "webhook-timestamp": string;
  /** `v1,<base64>`, one for each secret, separated by spaces. */
  readonly "webhook-signature": string;
}

/** A redriven task has the id of the first task in this header. A caller cannot set it. */
export const MESSAGE_ID = "webhook-id";

/** The `webhook-id` of a task: the same for all attempts, and for all redrives of it. */
export function messageIdOf({ headers, taskId }: Pick<NewTask, "headers" | "taskId">): string {
  return headers[MESSAGE_ID] ?? taskId;
}

/** The key of a secret. */
export type SigningKey = KeyObject;

/** Parses a secret; throws `INVALID_ARGUMENT`, without quoting it, if it is malformed. */
export function parseSigningSecret(secret: string): SigningKey {
  const base64 = signingSecretBase64(secret);
  if (base64 === undefined) throw new RedriveError("INVALID_ARGUMENT", BAD_SIGNING_SECRET);
  return createSecretKey(Buffer.from(base64, "base64"));
}

/** Signs a body that arrives in parts. */
interface WebhookSigner {
  update(part: Uint8Array): void;
  /** The three headers of the attempt. Call it once, at the end. */
  headers(): WebhookHeaders;
}

/** Throws `INVALID_ARGUMENT` for an id with a dot or without a key. */
export function createSigner(
  keys: readonly SigningKey[],
  { id, now }: Pick<WebhookMessage, "id" | "now">,
): WebhookSigner {
  if (id === "" || id.includes(".") || keys.length === 0) {
    throw new RedriveError("INVALID_ARGUMENT", "signing needs a key and an id without a dot");
  }
  const timestamp = String(Math.floor(now / 1000));
  const digests = keys.map((key) => startDigest(key, id, timestamp));
  return {
    update(part) {
      for (const digest of digests) digest.update(part);
    },
    headers: () => ({
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": digests.map((digest) => `v1,${digest.digest("base64")}`).join(" "),
    }),
  };
}

/** The three headers of one attempt. Throws like `createSigner`. */
export function signWebhook(keys: readonly SigningKey[], message: WebhookMessage): WebhookHeaders {
  const signer = createSigner(keys, message);
  signer.update(message.body);
  return signer.headers();
}

/** What a target received; header names in lower case. */
export interface ReceivedWebhook {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The bytes as received, before any parsing. */
  readonly body: Uint8Array | string;
}

/**
 * For targets that have the service installed: checks that a webhook was signed less than 5 minutes from
 * `now` (epoch ms) with this secret, or with one of several while they rotate. Compares in constant time.
 * Deduplicate by the returned `id`. `verifyWebhook` of `redrive/webhooks` is the same without the service.
 */
export function verifyWebhook(
  secrets: string | readonly string[],
  { headers, body }: ReceivedWebhook,
  now: number,
): WebhookVerdict {
  const webhook = readWebhook((name) => headers[name], now);
  if (typeof webhook === "string") return { ok: false, refusal: webhook };
  const keys = [secrets].flat().map(parseSigningSecret);
  const isSigned = keys.some((key) => isSignedWith(key, webhook, body));
  return isSigned ? { ok: true, id: webhook.id } : { ok: false, refusal: "mismatch" };
}

function isSignedWith(
  key: SigningKey,
  { signedPrefix, signatures }: UnverifiedWebhook,
  body: Uint8Array | string,
): boolean {
  const expected = createHmac("sha256", key).update(signedPrefix).update(body).digest();
  return signatures.some((signature) => {
    const given = Buffer.from(signature, "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

function startDigest(key: SigningKey, id: string, timestamp: string): Hmac {
  return createHmac("sha256", key).update(`${id}.${timestamp}.`);
}
