/**
 * Secrets: encrypts task headers that may hold secrets (AES-256-GCM) if there is a key. It works
 * above the store, so that every store benefits: a task is sealed before it is stored and opened
 * just before it is sent. Without a key nothing is sealed.
 *
 * The store keeps a document about the key, so that a wrong key is found at the start and not at
 * the first attempt. The document also holds the key of the fingerprints, which stays the same when
 * the encryption key is rotated.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac } from "node:crypto";
import { quote, RedriveError } from "@redrive/core";
import type { DocumentTable } from "../model/document-table.ts";
import type { FillRandom } from "../model/ids.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";
import type { Digest } from "./policies.ts";

export interface Secrets {
  /** The task with its secret headers encrypted. */
  seal<Task extends NewTask>(task: Task): Task;
  /** The task with its headers decrypted; null if one cannot be decrypted. */
  open<Task extends NewTask>(task: Task): Task | null;
  /** The digest of a payload, for the key table. It reveals nothing without the key. */
  readonly fingerprint: Digest;
}

interface Key {
  /** Derived from a digest, so that it reveals nothing about the key. */
  readonly id: string;
  readonly bytes: Buffer;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** No header value of a caller can contain it, so it marks sealed values unambiguously. */
const SEALED = "\u0001";

const KEY_DOCUMENT = { kind: "encryption", tenantId: "", id: "key" } as const;

interface KeyDocument {
  readonly keyId: string;
  /** The key of the fingerprints, sealed. */
  readonly fingerprintKey: string;
}

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

/**
 * Checks the keys against the document in the store; throws `INVALID_ARGUMENT` if they do not
 * match.
 */
export async function openSecrets(
  documents: DocumentTable,
  fill: FillRandom,
  text: string | undefined,
): Promise<Secrets> {
  const keys = text === undefined || text === "" ? [] : parseEncryptionKeys(text);
  const stored = await documents.get(KEY_DOCUMENT.kind, KEY_DOCUMENT.tenantId, KEY_DOCUMENT.id);
  const [key] = keys;
  if (key === undefined) {
    if (stored === null) return { ...headerCipher([], fill), fingerprint: sha256 };
    throw noKey((JSON.parse(stored.text) as KeyDocument).keyId);
  }
  const document = stored === null ? undefined : (JSON.parse(stored.text) as KeyDocument);
  const fingerprintKey =
    document === undefined ? newBytes(fill, KEY_BYTES) : openFingerprintKey(keys, document);
  if (document?.keyId !== key.id) {
    const sealed = sealBytes(key, fill, fingerprintKey, KEY_DOCUMENT.id);
    const next: KeyDocument = { keyId: key.id, fingerprintKey: sealed };
    await documents.put({
      ...KEY_DOCUMENT,
      version: (stored?.version ?? 0) + 1,
      text: JSON.stringify(next),
    });
  }
  return { ...headerCipher(keys, fill), fingerprint: hmac(fingerprintKey) };
}

function openFingerprintKey(keys: readonly Key[], { keyId, fingerprintKey }: KeyDocument): Buffer {
  const bytes = openBytes(keys, fingerprintKey, KEY_DOCUMENT.id);
  if (bytes !== null) return bytes;
  const given = keys.map(({ id }) => id).join(", ");
  const message = `REDRIVE_ENCRYPTION_KEY is not the key of this store: its headers are encrypted with key ${keyId}, got ${given}. Set it to that key; to change the key, set it to NEW,OLD`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function noKey(keyId: string): Error {
  const message = `the headers in this store are encrypted with key ${quote(keyId)}: set REDRIVE_ENCRYPTION_KEY to it`;
  return new RedriveError("INVALID_ARGUMENT", message);
}

function headerCipher(keys: readonly Key[], fill: FillRandom): Pick<Secrets, "seal" | "open"> {
  const [key] = keys;
  return {
    seal(task) {
      if (key === undefined || !hasAny(task.headers, isSecret)) return task;
      const headers = mapValues(task.headers, (name, value) => {
        if (!isSecret(name, value)) return value;
        return sealBytes(key, fill, Buffer.from(value, "utf8"), additionalData(task, name));
      });
      return { ...task, headers };
    },
    open(task) {
      if (!hasAny(task.headers, isSealed)) return task;
      let isComplete = true;
      const headers = mapValues(task.headers, (name, value) => {
        if (!isSealed(name, value)) return value;
        const bytes = openBytes(keys, value, additionalData(task, name));
        if (bytes === null) isComplete = false;
        return bytes?.toString("utf8") ?? "";
      });
      return isComplete ? { ...task, headers } : null;
    },
  };
}

type HeaderTest = (name: string, value: string) => boolean;

const isSealed: HeaderTest = (_, value) => value.startsWith(SEALED);
const isSecret: HeaderTest = (name, value) => !isHarmlessHeader(name) && !isSealed(name, value);

function hasAny(headers: Headers, isSuch: HeaderTest): boolean {
  for (const name in headers) if (isSuch(name, headers[name] ?? "")) return true;
  return false;
}

function mapValues(headers: Headers, map: (name: string, value: string) => string): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, map(name, value)]),
  );
}

/** Binds a sealed value to its task and header: it cannot be decrypted anywhere else. */
function additionalData({ tenantId, taskId }: NewTask, name: string): string {
  return `${tenantId}\n${taskId}\n${name.toLowerCase()}`;
}

function sealBytes(key: Key, fill: FillRandom, bytes: Buffer, context: string): string {
  const nonce = newBytes(fill, NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce).setAAD(Buffer.from(context));
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final()]);
  const payload = Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  return `${SEALED}${key.id}.${payload.toString("base64")}`;
}

/** Null if the key is missing, or the value was sealed for another task or header. */
function openBytes(keys: readonly Key[], value: string, context: string): Buffer | null {
  const [id, text = ""] = value.slice(SEALED.length).split(".", 2);
  const key = keys.find((one) => one.id === id);
  const payload = Buffer.from(text, "base64");
  if (key === undefined || payload.length < NONCE_BYTES + TAG_BYTES) return null;
  const nonce = payload.subarray(0, NONCE_BYTES);
  const tag = payload.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const options = { authTagLength: TAG_BYTES };
  const decipher = createDecipheriv("aes-256-gcm", key.bytes, nonce, options)
    .setAAD(Buffer.from(context))
    .setAuthTag(tag);
  try {
    return Buffer.concat([
      decipher.update(payload.subarray(NONCE_BYTES + TAG_BYTES)),
      decipher.final(),
    ]);
  } catch {
    return null;
  }
}

function newBytes(fill: FillRandom, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
}

function idOf(bytes: Buffer): string {
  return createHash("sha256").update("redrive key id\n").update(bytes).digest("hex").slice(0, 12);
}

/** The digest of strings and bytes. */
export function sha256(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}

function hmac(key: Buffer): Digest {
  return (parts) => {
    const hash = createHmac("sha256", key);
    for (const part of parts) hash.update(part);
    return hash.digest("hex");
  };
}
