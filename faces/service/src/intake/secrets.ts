/**
 * Secrets: encrypts task headers that may hold secrets, and signing secrets (AES-256-GCM), if there is a
 * key. It works above the store, so that every store benefits: a task is sealed before it is stored
 * and opened just before it is sent. Without a key nothing is sealed.
 *
 * The store keeps a document about the key, so that a wrong key is found at the start and not at
 * the first attempt. The document also holds the key of the fingerprints, which stays the same when
 * the encryption key is rotated.
 */
import { createHash, createHmac, createSecretKey } from "node:crypto";
import { quote, RedriveError } from "@redrive/core";
import type { DocumentTable } from "../model/document-table.ts";
import type { FillRandom } from "../model/ids.ts";
import type { Headers, NewTask } from "../model/task.ts";
import {
  KEY_BYTES,
  type Key,
  newBytes,
  openBytes,
  parseEncryptionKeys,
  randomNonces,
  sealValue,
} from "./encryption-keys.ts";
import type { Digest } from "./policies.ts";
import { openedHeaders, sealedHeaders } from "./sealed-headers.ts";

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
    const sealer = { key, newNonce: randomNonces(fill) };
    const sealed = sealValue(sealer, fingerprintKey, KEY_DOCUMENT.id);
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
  const [key] = keys;
  const sealer = key && { key, newNonce: randomNonces(fill) };
  const openHeaders = (task: NewTask) => openedHeaders(keys, task);
  return {
    openHeaders,
    seal(task) {
      const headers = sealer === undefined ? task.headers : sealedHeaders(sealer, task);
      return headers === task.headers ? task : { ...task, headers };
    },
    open(task) {
      const headers = openHeaders(task);
      if (headers === task.headers) return task;
      return headers && { ...task, headers };
    },
    sealText: (text, context) => (sealer === undefined ? null : sealValue(sealer, text, context)),
    openText: (sealed, context) => openBytes(keys, sealed, context)?.toString("utf8") ?? null,
  };
}

/** The digest of strings and bytes. */
export function sha256(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}

function hmac(bytes: Buffer): Digest {
  const key = createSecretKey(bytes);
  return (parts) => {
    const hash = createHmac("sha256", key);
    for (const part of parts) hash.update(part);
    return hash.digest("hex");
  };
}
