/**
 * Webhook: the texts of Standard Webhooks (https://www.standardwebhooks.com), which senders and receivers
 * share: secrets, and the headers of a webhook. Hashing is up to the faces.
 */

const PREFIX = "whsec_";

const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Base64 without its padding. The last character has no bits beyond the last byte. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048])?$/u;

/** For messages. */
export const SIGNING_SECRET_FORMAT: string = `${PREFIX} followed by the base64 of ${MIN_BYTES} to ${MAX_BYTES} bytes`;

/** Does not quote the secret. */
export const BAD_SIGNING_SECRET: string = `signing secret must be ${SIGNING_SECRET_FORMAT}`;

/** The base64 of a secret: an optional `whsec_`, then base64 of 24 to 64 bytes. Undefined: malformed. */
export function signingSecretBase64(secret: string): string | undefined {
  const padded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const base64 = padded.replace(/=+$/u, "");
  const bytes = Math.floor((base64.length * 3) / 4);
  const isGood = BASE64.test(base64) && bytes >= MIN_BYTES && bytes <= MAX_BYTES;
  return isGood ? base64 : undefined;
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

/** A webhook whose time is good, and whose signatures are still to be compared. */
export interface UnverifiedWebhook {
  readonly id: string;
  /** What is signed in front of the body. */
  readonly signedPrefix: string;
  /** In base64, of the version that we know. */
  readonly signatures: readonly string[];
}

/** Maximum distance of a timestamp from now, in both directions. */
const TOLERANCE_MS = 300_000;

/** Other versions (`v1a`) are skipped: a sender may send several. */
const VERSION = "v1,";

/** Reads the headers of a webhook by their names. `now`: epoch ms. */
export function readWebhook(
  header: (name: string) => unknown,
  now: number,
): UnverifiedWebhook | WebhookRefusal {
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  const signatures = header("webhook-signature");
  if (!isText(id) || !isText(timestamp) || !isText(signatures)) return "missing-header";
  const known = signatures.split(" ").filter((signature) => signature.startsWith(VERSION));
  const webhook = {
    id,
    signedPrefix: `${id}.${timestamp}.`,
    signatures: known.map((signature) => signature.slice(VERSION.length)),
  };
  return untimely(timestamp, now) ?? webhook;
}

function untimely(timestamp: string, now: number): WebhookRefusal | undefined {
  if (!/^\d{1,12}$/.test(timestamp)) return "bad-timestamp";
  const aheadMs = Number(timestamp) * 1000 - now;
  if (aheadMs < -TOLERANCE_MS) return "too-old";
  return aheadMs > TOLERANCE_MS ? "too-new" : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
