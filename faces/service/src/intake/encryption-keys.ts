/**
 * Encryption keys: reads `REDRIVE_ENCRYPTION_KEY`, and encrypts and decrypts values with its keys
 * (AES-256-GCM). A value is bound to a context, and cannot be decrypted in another one.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";
import { RedriveError } from "@redrive/core";
import type { FillRandom } from "../model/ids.ts";

export interface Key {
  /** Derived from a digest, so that it reveals nothing about the key. */
  readonly id: string;
  readonly bytes: Buffer;
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
    if (bytes.length === KEY_BYTES) return { id: idOf(bytes), bytes };
    const message = `REDRIVE_ENCRYPTION_KEY must be ${KEY_BYTES} bytes in Base64 or hexadecimal (older keys after commas), got ${bytes.length} bytes: create one with \`openssl rand -base64 32\``;
    throw new RedriveError("INVALID_ARGUMENT", message);
  });
}

/** The id of the current key; throws `INVALID_ARGUMENT` for a malformed text. */
export function assertEncryptionKey(text: string): string {
  return parseEncryptionKeys(text)[0]?.id ?? "";
}

export function sealBytes(key: Key, fill: FillRandom, bytes: Buffer, context: string): string {
  const nonce = newBytes(fill, NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce).setAAD(Buffer.from(context));
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final()]);
  const payload = Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  return `${SEALED}${key.id}.${payload.toString("base64")}`;
}

/** Null if the key is missing, or the value was sealed for another task or header. */
export function openBytes(keys: readonly Key[], value: string, context: string): Buffer | null {
  const end = value.indexOf(".");
  const id = value.slice(SEALED.length, end);
  const key = keys.find((one) => one.id === id);
  const payload = Buffer.from(value.slice(end + 1), "base64");
  if (key === undefined || payload.length < NONCE_BYTES + TAG_BYTES) return null;
  const nonce = payload.subarray(0, NONCE_BYTES);
  const tag = payload.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key.bytes, nonce, TAG_OPTIONS)
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
