/**
 * Secrets: headers of tasks that may hold one, encrypted where they rest (AES-256-GCM) once there is
 * a key. It sits above the store, so that every store gains it: a task is sealed before it is handed
 * over and opened when it is about to leave. Without a key nothing is sealed.
 *
 * The store keeps a note of the key: one that is wrong is found out at the start and not at the
 * first attempt. The note also holds the key of the fingerprints, which a rotation does not change.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac } from "node:crypto";
import { quote, RedriveError } from "@redrive/core";
import type { DocumentTable } from "../model/document-table.ts";
import type { FillRandom } from "../model/ids.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";
import type { Digest } from "./policies.ts";

export interface Secrets {
  /** The task as it may rest. */
  seal<Task extends NewTask>(task: Task): Task;
  /** The task as it is to leave; null if one of its secrets cannot be had. */
  open<Task extends NewTask>(task: Task): Task | null;
  /** The digest of a payload, for the key table: says nothing to who has not the key. */
  readonly fingerprint: Digest;
}

interface Key {
  /** Of its digest, so that it says nothing of the key itself. */
  readonly id: string;
  readonly bytes: Buffer;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** No header of a caller can hold it, so that a sealed value is known for certain. */
const SEALED = "\u0001";

const KEY_DOCUMENT = { kind: "encryption", tenantId: "", id: "key" } as const;

interface KeyDocument {
  readonly keyId: string;
  /** The key of the fingerprints, sealed. */
  readonly fingerprintKey: string;
}

/** Reads `REDRIVE_ENCRYPTION_KEY`: the key, and behind commas those before it. */
export function parseEncryptionKeys(text: string): readonly Key[] {
  return text.split(",").map((part) => {
    const trimmed = part.trim();
    const encoding = /^[\da-f]{64}$/i.test(trimmed) ? "hex" : "base64";
    const bytes = Buffer.from(trimmed, encoding);
    if (bytes.length === KEY_BYTES) return { id: idOf(bytes), bytes };
    const message = `REDRIVE_ENCRYPTION_KEY must be ${KEY_BYTES} bytes in Base64 or hexadecimal (older keys behind commas), got ${bytes.length} bytes: make one with \`openssl rand -base64 32\``;
    throw new RedriveError("INVALID_ARGUMENT", message);
  });
}

/** The id of the key that seals; throws `INVALID_ARGUMENT` for a text that is none. */
export function assertEncryptionKey(text: string): string {
  return parseEncryptionKeys(text)[0]?.id ?? "";
}

/** Checks the keys against the store's note, and throws `INVALID_ARGUMENT` if they are not its own. */
export async function openSecrets(
  notes: DocumentTable,
  fill: FillRandom,
  text: string | undefined,
): Promise<Secrets> {
  const keys = text === undefined || text === "" ? [] : parseEncryptionKeys(text);
  const stored = await notes.get(KEY_DOCUMENT.kind, KEY_DOCUMENT.tenantId, KEY_DOCUMENT.id);
  const [key] = keys;
  if (key === undefined) {
    if (stored === null) return { ...headerCipher([], fill), fingerprint: sha256 };
    throw noKey((JSON.parse(stored.text) as KeyDocument).keyId);
  }
  const document = stored === null ? undefined : (JSON.parse(stored.text) as KeyDocument);
  const fingerprintKey =
    document === undefined ? randomBytes(fill, KEY_BYTES) : openFingerprintKey(keys, document);
  if (document?.keyId !== key.id) {
    const sealed = sealBytes(key, fill, fingerprintKey, KEY_DOCUMENT.id);
    const next: KeyDocument = { keyId: key.id, fingerprintKey: sealed };
    await notes.put({
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
  const message = `REDRIVE_ENCRYPTION_KEY is not the key of this store: its headers are encrypted under key ${keyId}, given was ${given}. Set it to that key; to change the key, set it to NEW,OLD`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function noKey(keyId: string): Error {
  const message = `the headers in this store are encrypted under key ${quote(keyId)}: set REDRIVE_ENCRYPTION_KEY to it`;
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

/** A sealed value is worth nothing in another place. */
function additionalData({ tenantId, taskId }: NewTask, name: string): string {
  return `${tenantId}\n${taskId}\n${name.toLowerCase()}`;
}

function sealBytes(key: Key, fill: FillRandom, bytes: Buffer, context: string): string {
  const nonce = randomBytes(fill, NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce).setAAD(Buffer.from(context));
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final()]);
  const payload = Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  return `${SEALED}${key.id}.${payload.toString("base64")}`;
}

/** Null if the key is not there, or the value is not what was sealed in this place. */
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

function randomBytes(fill: FillRandom, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
}

function idOf(bytes: Buffer): string {
  return createHash("sha256").update("redrive key id\n").update(bytes).digest("hex").slice(0, 12);
}

/** The digest of texts and bytes. */
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
