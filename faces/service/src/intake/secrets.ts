/**
 * Secrets: encrypts task headers that may hold secrets, and signing secrets (AES-256-GCM), if there is a
 * key. It works above the store, so that every store benefits: a task is sealed before it is stored
 * and opened just before it is sent. Without a key nothing is sealed.
 *
 * The store keeps a document about the key, so that a wrong key is found at the start and not at
 * the first attempt. The document also holds the key of the fingerprints, which stays the same when
 * the encryption key is rotated.
 */
import { createHash, createHmac } from "node:crypto";
import { quote, RedriveError } from "@redrive/core";
import type { DocumentTable } from "../model/document-table.ts";
import type { FillRandom } from "../model/ids.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";
import {
  KEY_BYTES,
  type Key,
  newBytes,
  openBytes,
  parseEncryptionKeys,
  SEALED,
  sealBytes,
} from "./encryption-keys.ts";
import type { Digest } from "./policies.ts";

export interface Secrets {
  /** The task with its secret headers encrypted. */
  seal<Task extends NewTask>(task: Task): Task;
  /** The task with its headers decrypted; null if one cannot be decrypted. */
  open<Task extends NewTask>(task: Task): Task | null;
  /** The headers of the task, decrypted; null if one cannot be decrypted. */
  openHeaders(task: NewTask): Headers | null;
  /** A text that is encrypted for this context; null if there is no key. */
  sealText(text: string, context: string): string | null;
  /** The text of `sealText`; null if it cannot be decrypted. */
  openText(sealed: string, context: string): string | null;
  /** The digest of a payload, for the key table. It reveals nothing without the key. */
  readonly fingerprint: Digest;
}

const KEY_DOCUMENT = { kind: "encryption", tenantId: "", id: "key" } as const;

interface KeyDocument {
  readonly keyId: string;
  /** The key of the fingerprints, sealed. */
  readonly fingerprintKey: string;
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
    if (stored === null) return { ...ciphers([], fill), fingerprint: sha256 };
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
  return { ...ciphers(keys, fill), fingerprint: hmac(fingerprintKey) };
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

/** Binds a signing secret to its destination: it cannot be decrypted for another one. */
export function signingContext(tenantId: string, destination: string): string {
  return `${tenantId}\n${destination}\nsigning`;
}

function ciphers(keys: readonly Key[], fill: FillRandom): Omit<Secrets, "fingerprint"> {
  return { ...headerCipher(keys, fill), ...textCipher(keys, fill) };
}

function textCipher(
  keys: readonly Key[],
  fill: FillRandom,
): Pick<Secrets, "sealText" | "openText"> {
  const [key] = keys;
  return {
    sealText: (text, context) =>
      key === undefined ? null : sealBytes(key, fill, Buffer.from(text, "utf8"), context),
    openText: (sealed, context) => openBytes(keys, sealed, context)?.toString("utf8") ?? null,
  };
}

function headerCipher(
  keys: readonly Key[],
  fill: FillRandom,
): Pick<Secrets, "seal" | "open" | "openHeaders"> {
  const [key] = keys;
  const openHeaders = (task: NewTask) => openSealed(keys, task);
  return {
    openHeaders,
    seal(task) {
      if (key === undefined || !hasAny(task.headers, isSecret)) return task;
      const headers = mapValues(task.headers, (name, value) => {
        if (!isSecret(name, value)) return value;
        return sealBytes(key, fill, Buffer.from(value, "utf8"), additionalData(task, name));
      });
      return { ...task, headers };
    },
    open(task) {
      const headers = openHeaders(task);
      if (headers === task.headers) return task;
      return headers && { ...task, headers };
    },
  };
}

function openSealed(keys: readonly Key[], task: NewTask): Headers | null {
  if (!hasAny(task.headers, isSealed)) return task.headers;
  let isComplete = true;
  const headers = mapValues(task.headers, (name, value) => {
    if (!isSealed(name, value)) return value;
    const bytes = openBytes(keys, value, additionalData(task, name));
    if (bytes === null) isComplete = false;
    return bytes?.toString("utf8") ?? "";
  });
  return isComplete ? headers : null;
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
