/**
 * Signing: Standard Webhooks signatures (https://www.standardwebhooks.com), so that a target can
 * authenticate our requests. A signature covers the task's id, the attempt's timestamp and the
 * exact bytes of the body. While secrets rotate, every secret signs.
 */
import {
  createHmac,
  createSecretKey,
  type Hmac,
  type KeyObject,
  timingSafeEqual,
} from "node:crypto";
import { RedriveError } from "@redrive/core";
import { BAD_SECRET, secretBase64 } from "../model/delivery/signing-secret.ts";

/** What is signed. */
export interface WebhookMessage {
  /** The same for every attempt. It has no dot, because a dot separates it from the timestamp. */
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

/** The key of a secret. */
export type SigningKey = KeyObject;

/** Maximum distance of a timestamp from now, in both directions. */
const TOLERANCE_MS = 300_000;

/** Parses a secret; throws `INVALID_ARGUMENT`, without quoting it, if it is malformed. */
export function parseSigningSecret(secret: string): SigningKey {
  const base64 = secretBase64(secret);
  if (base64 === undefined) throw new RedriveError("INVALID_ARGUMENT", BAD_SECRET);
  return createSecretKey(Buffer.from(base64, "base64"));
}

/** Signs a body that arrives in parts. */
export interface WebhookSigner {
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

/** Why a webhook was rejected. */
export type WebhookRefusal =
  | "missing-header"
  | "bad-timestamp"
  | "too-old"
  | "too-new"
  | "mismatch";

export type WebhookVerdict =
  | { readonly ok: true; readonly id: string }
  | { readonly ok: false; readonly refusal: WebhookRefusal };

/** What a target received; header names in lower case. */
export interface ReceivedWebhook {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The bytes as received, before any parsing. */
  readonly body: Uint8Array | string;
}

/**
 * For targets: checks that a webhook was signed with this secret less than 5 minutes from `now`
 * (epoch ms). Compares in constant time. Deduplicate by the returned `id`.
 */
export function verifyWebhook(
  secret: string,
  { headers, body }: ReceivedWebhook,
  now: number,
): WebhookVerdict {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!isText(id) || !isText(timestamp) || !isText(signatures)) return refuse("missing-header");
  const untimely = judgeTime(timestamp, now);
  if (untimely !== undefined) return refuse(untimely);
  const expected = startDigest(parseSigningSecret(secret), id, timestamp).update(body).digest();
  const signed = signatures.split(" ").some((signature) => isSignature(signature, expected));
  return signed ? { ok: true, id } : refuse("mismatch");
}

function judgeTime(timestamp: string, now: number): WebhookRefusal | undefined {
  if (!/^\d{1,12}$/.test(timestamp)) return "bad-timestamp";
  const aheadMs = Number(timestamp) * 1000 - now;
  if (aheadMs < -TOLERANCE_MS) return "too-old";
  return aheadMs > TOLERANCE_MS ? "too-new" : undefined;
}

function startDigest(key: SigningKey, id: string, timestamp: string): Hmac {
  return createHmac("sha256", key).update(`${id}.${timestamp}.`);
}

/** Other versions (`v1a`) are skipped: a sender may send several. */
function isSignature(text: string, expected: Buffer): boolean {
  if (!text.startsWith("v1,")) return false;
  const given = Buffer.from(text.slice(3), "base64");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function refuse(refusal: WebhookRefusal): WebhookVerdict {
  return { ok: false, refusal };
}
