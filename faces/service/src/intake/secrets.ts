/**
 * Secrets: encrypts task headers that may hold secrets, and signing secrets (AES-256-GCM), if there is a
 * key. It works above the store, so that every store benefits: a task is sealed before it is stored
 * and opened just before it is sent. Without a key nothing is sealed.
 *
 * The store keeps a document about the key, so that a wrong key is found at the start and not at
 * the first attempt. The document also holds the key of the fingerprints, which stays the same when
 * the encryption key is rotated.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
} from "node:crypto";
import { quote, RedriveError } from "@redrive/core";
import { parseSigningSecret, type SigningKey } from "../deliver/signing.ts";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import type { DocumentTable } from "../model/document-table.ts";
import type { FillRandom } from "../model/ids.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task.ts";
import type { Digest } from "./policies.ts";

export interface Secrets {
  /** The ids of the keys: the current one first, then those that only decrypt. Empty: no key. */
  readonly keyIds: readonly string[];
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

/** What each node of a fleet can decrypt with. A document of this kind has the id of its node. */
const NODE_KEYS = "encryption-node";

/** How many live nodes of a fleet there are, and how many of them have each key. */
export interface FleetKeys {
  readonly nodes: number;
  readonly nodesWith: Readonly<Record<string, number>>;
}

/** Tells the other nodes which keys this one has, and forgets the nodes that are gone. */
export async function announceKeys(
  documents: DocumentTable,
  { keyIds }: Pick<Secrets, "keyIds">,
  nodeId: string,
  nodes: readonly string[],
): Promise<void> {
  const text = JSON.stringify(keyIds);
  await documents.put({ kind: NODE_KEYS, tenantId: "", id: nodeId, version: 1, text });
  const { documents: known } = await documents.list(NODE_KEYS, { limit: MAX_NODES });
  const gone = known.filter(({ id }) => id !== nodeId && !nodes.includes(id));
  for (const { id } of gone) await documents.remove(NODE_KEYS, "", id);
}

/** More than the nodes of any fleet. */
const MAX_NODES = 1000;

export async function keysOfFleet(
  documents: DocumentTable,
  nodes: readonly string[],
): Promise<FleetKeys> {
  const texts = await documents.getMany(
    NODE_KEYS,
    nodes.map((id) => ({ tenantId: "", id })),
  );
  const nodesWith: Record<string, number> = {};
  for (const id of texts.flatMap((text) => JSON.parse(text ?? "[]") as readonly string[])) {
    nodesWith[id] = (nodesWith[id] ?? 0) + 1;
  }
  return { nodes: nodes.length, nodesWith };
}

function openFingerprintKey(keys: readonly Key[], { keyId, fingerprintKey }: KeyDocument): Buffer {
  const bytes = openBytes(keys, fingerprintKey, KEY_DOCUMENT.id);
  if (bytes !== null) return bytes;
  const given = keys.map(({ id }) => id).join(", ");
  const message = `encryptionKey (REDRIVE_ENCRYPTION_KEY) is not the key of this store: its headers are encrypted with key ${keyId}, got ${given}. Set it to that key; to change the key, start every node with OLD,NEW, then with NEW,OLD`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function noKey(keyId: string): Error {
  const message = `the headers in this store are encrypted with key ${quote(keyId)}: set encryptionKey (REDRIVE_ENCRYPTION_KEY) to it`;
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
    keyIds: keys.map(({ id }) => id),
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

// Sealed headers: encrypts the headers of a task that may hold secrets, and decrypts them before an
// attempt. Their names stay readable. A task needs one encryption, however many headers it has: the
// values of several headers are sealed together, in the first of them.

/** No header value of a caller can contain it, so it marks sealed values unambiguously. */
const SEALED = "\u0001";

/**
 * Marks the value that holds the values of several headers: its own, and those of all headers with the
 * value `SEALED`. Ids of keys are hexadecimal, so no value that is sealed alone starts like this.
 */
const TOGETHER = `${SEALED}+`;

/** The headers with their secrets encrypted; the headers themselves if they have none. */
function sealedHeaders(sealer: Sealer, task: NewTask): Headers {
  const names = namesWhere(task.headers, isSecret);
  const [first] = names;
  if (first === undefined) return task.headers;
  // Values that are sealed together already must stay the only ones of their kind.
  if (names.length === 1 || hasSealed(task.headers)) return sealEach(sealer, task, names);
  const headers: Record<string, string> = { ...task.headers };
  const values = names.map((name) => task.headers[name] ?? "");
  for (const name of names) headers[name] = SEALED;
  const sealed = sealValue(sealer, JSON.stringify(values), togetherContext(task, names));
  headers[first] = `${TOGETHER}${sealed}`;
  return headers;
}

function sealEach(sealer: Sealer, task: NewTask, names: readonly string[]): Headers {
  const headers: Record<string, string> = { ...task.headers };
  for (const name of names) {
    headers[name] = sealValue(sealer, headers[name] ?? "", contextOf(task, [name]));
  }
  return headers;
}

export function hasSealed(headers: Headers): boolean {
  for (const name in headers) if (headers[name]?.startsWith(SEALED)) return true;
  return false;
}

/** The headers decrypted; the headers themselves if none is sealed, null if one cannot be decrypted. */
function openedHeaders(keys: readonly Key[], task: NewTask): Headers | null {
  const names = namesWhere(task.headers, isSealed);
  if (names.length === 0) return task.headers;
  const headers: Record<string, string> = { ...task.headers };
  const together = names.filter((name) => isTogether(headers[name] ?? ""));
  if (together.length > 0 && !openTogether(keys, task, together, headers)) return null;
  for (const name of names) {
    if (together.includes(name)) continue;
    const value = openBytes(keys, headers[name] ?? "", contextOf(task, [name]));
    if (value === null) return null;
    headers[name] = value.toString("utf8");
  }
  return headers;
}

/** Writes the values that were sealed together to the headers; false if they cannot be decrypted. */
function openTogether(
  keys: readonly Key[],
  task: NewTask,
  names: readonly string[],
  headers: Record<string, string>,
): boolean {
  const sealed = names.map((name) => headers[name] ?? "").filter((value) => value !== SEALED);
  const [first = ""] = sealed;
  const bytes = openBytes(keys, first.slice(TOGETHER.length), togetherContext(task, names));
  if (bytes === null || sealed.length !== 1) return false;
  const values = valuesIn(bytes.toString("utf8"));
  if (values?.length !== names.length) return false;
  for (const [index, name] of names.entries()) headers[name] = values[index] ?? "";
  return true;
}

/** A list of texts; undefined for everything else. */
function valuesIn(text: string): readonly string[] | undefined {
  try {
    const values: unknown = JSON.parse(text);
    const isList = Array.isArray(values) && values.every((value) => typeof value === "string");
    return isList ? values : undefined;
  } catch {
    return undefined;
  }
}

function isTogether(value: string): boolean {
  return value === SEALED || value.startsWith(TOGETHER);
}

type HeaderTest = (name: string, value: string) => boolean;

const isSealed: HeaderTest = (_, value) => value.startsWith(SEALED);
const isSecret: HeaderTest = (name, value) => !isSealed(name, value) && !isHarmlessHeader(name);

/** Sorted, because a store may return the headers in another order. */
function namesWhere(headers: Headers, isSuch: HeaderTest): readonly string[] {
  const names: string[] = [];
  for (const name in headers) if (isSuch(name, headers[name] ?? "")) names.push(name);
  return names.length > 1 ? names.sort() : names;
}

/** Binds a sealed value to its task and its headers: it cannot be decrypted anywhere else. */
function contextOf({ tenantId, taskId }: NewTask, names: readonly string[]): string {
  return `${tenantId}\n${taskId}\n${names.join("\n").toLowerCase()}`;
}

/** The form is part of it, so that a value that was sealed alone is never read as several values. */
function togetherContext(task: NewTask, names: readonly string[]): string {
  return `${contextOf(task, names)}\n+`;
}

/** Null: a secret cannot be decrypted, so nothing may be sent. */
type SigningKeysOf = (
  task: Pick<NewTask, "tenantId" | "destination">,
  settings: DeliverySettings,
) => readonly SigningKey[] | null;

/** Decrypts the signing secrets of a destination, once for each version of its document. */
export function signingKeys(secrets: Secrets): SigningKeysOf {
  const opened = new WeakMap<DeliverySettings, readonly SigningKey[] | null>();
  return ({ tenantId, destination }, settings) => {
    if (settings.signingSecrets.length === 0) return NO_KEYS;
    const known = opened.get(settings);
    if (known !== undefined) return known;
    const keys = openAll(secrets, settings.signingSecrets, signingContext(tenantId, destination));
    opened.set(settings, keys);
    return keys;
  };
}

const NO_KEYS: readonly SigningKey[] = [];

function openAll(
  secrets: Secrets,
  sealed: readonly string[],
  context: string,
): readonly SigningKey[] | null {
  const texts = sealed.map((one) => secrets.openText(one, context));
  return texts.every((text) => text !== null) ? texts.map(parseSigningSecret) : null;
}

// Encryption keys: reads `encryptionKey`, and encrypts and decrypts values with its keys
// (AES-256-GCM). A value is bound to a context, and cannot be decrypted in another one.

interface Key {
  /** Derived from a digest, so that it reveals nothing about the key. */
  readonly id: string;
  /** Created once: OpenSSL copies the bytes of a key that is not a key object at every use. */
  readonly secret: KeyObject;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG_OPTIONS = { authTagLength: TAG_BYTES };

/** Parses `encryptionKey` (`REDRIVE_ENCRYPTION_KEY`): the current key, then earlier keys after commas. */
export function parseEncryptionKeys(text: string): readonly Key[] {
  return text.split(",").map((part) => {
    const trimmed = part.trim();
    const encoding = /^[\da-f]{64}$/i.test(trimmed) ? "hex" : "base64";
    const bytes = Buffer.from(trimmed, encoding);
    if (bytes.length === KEY_BYTES) return { id: idOf(bytes), secret: createSecretKey(bytes) };
    const message = `encryptionKey (REDRIVE_ENCRYPTION_KEY) must be ${KEY_BYTES} bytes in Base64 or hexadecimal (older keys after commas), got ${bytes.length} bytes: create one with \`openssl rand -base64 32\``;
    throw new RedriveError("INVALID_ARGUMENT", message);
  });
}

/** The ids of the keys, the current one first; throws `INVALID_ARGUMENT` for a malformed text. */
export function encryptionKeyIds(text: string): readonly string[] {
  return parseEncryptionKeys(text).map(({ id }) => id);
}

/** Encrypts bytes, or a text as UTF-8, for the context. */
function sealValue({ key, newNonce }: Sealer, value: Buffer | string, context: string): string {
  const nonce = newNonce();
  const cipher = createCipheriv("aes-256-gcm", key.secret, nonce).setAAD(Buffer.from(context));
  const sealed = typeof value === "string" ? cipher.update(value, "utf8") : cipher.update(value);
  // It returns no bytes, because GCM has no padding, but it computes the tag.
  cipher.final();
  const payload = Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  return `${SEALED}${key.id}.${payload.toString("base64")}`;
}

/** Encrypts with this key. */
interface Sealer {
  readonly key: Key;
  readonly newNonce: NewNonce;
}

/** A nonce that was never returned before, except with the probability of equal random numbers. */
type NewNonce = () => Uint8Array;

/** Random nonces. The bytes of many are drawn at once: a draw costs as much as an encryption. */
function randomNonces(fill: FillRandom): NewNonce {
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
function openBytes(keys: readonly Key[], value: string, context: string): Buffer | null {
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

function newBytes(fill: FillRandom, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  fill(bytes);
  return bytes;
}

function idOf(bytes: Buffer): string {
  return createHash("sha256").update("redrive key id\n").update(bytes).digest("hex").slice(0, 12);
}
