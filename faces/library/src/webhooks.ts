/**
 * `redrive/webhooks`: verifies the signatures of Standard Webhooks (https://www.standardwebhooks.com), such
 * as those that the service sends. It uses Web Crypto, so that it runs in workers, too.
 */
import {
  BAD_SIGNING_SECRET,
  RedriveError,
  readWebhook,
  signingSecretBase64,
  systemClock,
  type WebhookVerdict,
} from "@redrive/core";
import { base64Of, bytesOfBase64 } from "./http/base64.ts";
import { type HeadersLike, readHeader } from "./http/hop-headers.ts";

export type { WebhookRefusal, WebhookVerdict } from "@redrive/core";
export type { HeadersLike } from "./http/hop-headers.ts";

/** What a server received. */
export interface ReceivedWebhook {
  /** A `Headers`, or a plain object with lowercase names. */
  readonly headers: HeadersLike;
  /** The body as received, before any parsing. */
  readonly body: Uint8Array | ArrayBuffer | string;
}

/**
 * Checks that a webhook was signed with this secret, or with one of several while they rotate, less than 5
 * minutes from `now` (epoch ms; default: the system's). Compares in constant time. Deduplicate by the
 * returned `id`. Rejects with `INVALID_ARGUMENT` if there is no secret, or if one is malformed.
 */
export async function verifyWebhook(
  secrets: string | readonly string[],
  { headers, body }: ReceivedWebhook,
  now: number = systemClock.now(),
): Promise<WebhookVerdict> {
  const keys = keyBytesOf(secrets);
  const webhook = readWebhook((name) => readHeader(headers, name), now);
  if (typeof webhook === "string") return { ok: false, refusal: webhook };
  const signed = signedBytes(webhook.signedPrefix, body);
  // All are compared, so that the time does not tell which secret a sender has.
  const expected = await Promise.all(keys.map((key) => signatureOf(key, signed)));
  const pairs = expected.flatMap((one) => webhook.signatures.map((given) => isSame(one, given)));
  return pairs.includes(true) ? { ok: true, id: webhook.id } : { ok: false, refusal: "mismatch" };
}

function keyBytesOf(secrets: string | readonly string[]): Uint8Array[] {
  const keys = [secrets].flat().map((secret) => signingSecretBase64(String(secret)));
  if (keys.length === 0 || keys.includes(undefined)) {
    throw new RedriveError("INVALID_ARGUMENT", BAD_SIGNING_SECRET);
  }
  return keys.map((base64) => bytesOfBase64(base64 ?? ""));
}

function signedBytes(prefix: string, body: ReceivedWebhook["body"]): Uint8Array {
  const start = new TextEncoder().encode(prefix);
  const rest = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const bytes = new Uint8Array(start.length + rest.length);
  bytes.set(start);
  bytes.set(rest, start.length);
  return bytes;
}

const HMAC = { name: "HMAC", hash: "SHA-256" };

async function signatureOf(key: Uint8Array, signed: Uint8Array): Promise<string> {
  const { subtle } = crypto;
  const imported = await subtle.importKey("raw", key as BufferSource, HMAC, false, ["sign"]);
  return base64Of(new Uint8Array(await subtle.sign(HMAC, imported, signed as BufferSource)));
}

/** In constant time: the time does not tell how many characters are right. */
function isSame(expected: string, given: string): boolean {
  let difference = expected.length ^ given.length;
  for (let index = 0; index < expected.length; index++) {
    difference |= expected.charCodeAt(index) ^ given.charCodeAt(index);
  }
  return difference === 0;
}
