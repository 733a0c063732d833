/**
 * Encryption keys: reads `REDRIVE_ENCRYPTION_KEY`, and encrypts and decrypts values with its keys
 * (AES-256-GCM). A value is bound to a context, and cannot be decrypted in another one.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  type KeyObject,
} from "node:crypto";
import { RedriveError } from "@redrive/core";
import type { FillRandom } from "../model/ids.ts";

export interface Key {
  /** Derived from a digest, so that it reveals nothing about the key. */
  readonly id: string;
  /** Created once: OpenSSL copies the bytes of a key that is not a key object at every use. */
  readonly secret: KeyObject;
}

export const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG_OPTIONS = { authTagLength: TAG_BYTES };

/** No header value of a caller can contain it, so it marks sealed values unambiguously. */
export const SEALED = "\u0001";

/** Parses `REDRIVE_ENCRYPTION_KEY`: the current key, then earlier keys after commas. */
export function parseEncryptionKeys(text: string): readonly Key[] {
  return text.split(",").map((part) => {
    const trimmed = part.trim();
    const encoding = /^[\da-f]{64}$/i.test(trimmed) ? "hex" : "base64";
    const bytes = Buffer.from(trimmed, encoding);
    if (bytes.length === KEY_BYTES) return { id: idOf(bytes), secret: createSecretKey(bytes) };
    const message = `REDRIVE_ENCRYPTION_KEY must be ${KEY_BYTES} bytes in Base64 or hexadecimal (older keys after commas), got ${bytes.length} bytes: create one with \`openssl rand -base64 32\``;
    throw new RedriveError("INVALID_ARGUMENT", message);
  });
}

/** The id of the current key; throws `INVALID_ARGUMENT` for a malformed text. */
export function assertEncryptionKey(text: string): string {
  return parseEncryptionKeys(text)[0]?.id ?? "";
}

/** Encrypts bytes, or a text as UTF-8, for the context. */
export function sealValue(
  { key, newNonce }: Sealer,
  value: Buffer | string,
  context: string,
): string {
  const nonce = newNonce();
  const cipher = createCipheriv("aes-256-gcm", key.secret, nonce).setAAD(Buffer.from(context));
  const sealed = typeof value === "string" ? cipher.update(value, "utf8") : cipher.update(value);
  // It returns no bytes, because GCM has no padding, but it computes the tag.
  cipher.final();
  const payload = Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  return `${SEALED}${key.id}.${payload.toString("base64")}`;
}

/** Encrypts with this key. */
export interface Sealer {
  readonly key: Key;
  readonly newNonce: NewNonce;
}

/** A nonce that was never returned before, except with the probability of equal random numbers. */
export type NewNonce = () => Uint8Array;

/** Random nonces. The bytes of many are drawn at once: a draw costs as much as an encryption. */
export function randomNonces(fill: FillRandom): NewNonce {
  let pool = new Uint8Array(0);
  let used = 0;
  return () => {
    if (used + NONCE_BYTES > pool.length) {
      // A new array: a nonce may still be in use by its receiver.
      pool = new Uint8Array(NONCE_BYTES * NONCES_PER_DRAW);
      fill(pool);
      used = 0;
    }
    used += NONCE_BYTES;
    return pool.subarray(used - NONCE_BYTES, used);
  };
}

const NONCES_PER_DRAW = 256;

/** The bytes of `sealValue`. Null if its key is missing, or if it was sealed for another context. */
export function openBytes(keys: readonly Key[], value: string, context: string): Buffer | null {
  const end = value.indexOf(".");
  const id = value.slice(SEALED.length, end);
  const key = keys.find((one) => one.id === id);
  const payload = Buffer.from(value.slice(end + 1), "base64");
  if (key === undefined || payload.length < NONCE_BYTES + TAG_BYTES) return null;
  const nonce = payload.subarray(0, NONCE_BYTES);
  const tag = payload.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key.secret, nonce, TAG_OPTIONS)
    .setAAD(Buffer.from(context))
    .setAuthTag(tag);
  try {
    const bytes = decipher.update(payload.subarray(NONCE_BYTES + TAG_BYTES));
    // It returns no bytes, because GCM has no padding, but it throws if the tag is wrong.
    decipher.final();
    return bytes;
  } catch {
    return null;
  }
}

export function newBytes(fill: FillRandom, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
}

function idOf(bytes: Buffer): string {
  return createHash("sha256").update("redrive key id\n").update(bytes).digest("hex").slice(0, 12);
}
