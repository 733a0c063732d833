/**
 * Keys: who may call. A key is `rdv_<keyId>_<secret>`; only the SHA-256 of its secret is kept, which
 * is enough for 256 bits of chance. The book is a JSON file (mode 0600) beside the database rather
 * than a table in it: the database belongs to one process, and keys are made by another while the
 * service runs. It is replaced as a whole, and looked at again within a second.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { type Clock, causedError, isObject, quote, RedriveError } from "@redrive/core";
import { parseAllowlist } from "../../deliver/address-guard/allowlist.ts";
import { serviceError } from "../../model/errors.ts";
import type { FillRandom } from "../../model/ids.ts";

export const SCOPES = [
  "tasks:create",
  "tasks:read",
  "tasks:cancel",
  "dlq:redrive",
  "payload:read",
  "metrics:read",
  "admin",
] as const;

/** What a key may do. `admin` may do all of it, and change policies and destinations. */
export type Scope = (typeof SCOPES)[number];

export interface KeyRecord {
  readonly keyId: string;
  readonly tenantId: string;
  readonly scopes: readonly Scope[];
  /** SHA-256 of the secret, in hexadecimal. */
  readonly secretHash: string;
  /** For people. */
  readonly name: string;
  readonly createdAt: number;
  /** Not accepted from this instant; null: never ends. */
  readonly expiresAt: number | null;
  /** What this key may do at most; what is not given is as for all keys. */
  readonly limits?: KeyLimits;
}

export interface KeyLimits {
  /** Requests a second. */
  readonly requestsPerSecond?: number;
  /** Requests under way at once. */
  readonly requestsAtOnce?: number;
  /** Tasks of its tenant that may wait when it hands over another. */
  readonly maxWaiting?: number;
  /** Where its tasks may go and nowhere else: `cidr[:port]` or `name[:port]`, commas between. */
  readonly targets?: string;
}

export interface KeyStore {
  find(keyId: string): KeyRecord | undefined;
  list(): readonly KeyRecord[];
  /** Throws `INVALID_ARGUMENT` if the id is taken. */
  add(record: KeyRecord): void;
  /** False if there was none. */
  revoke(keyId: string): boolean;
}

export interface NewKey {
  readonly tenantId: string;
  readonly scopes: readonly Scope[];
  readonly name?: string;
  readonly now: number;
  readonly expiresAt?: number;
  readonly limits?: KeyLimits;
}

const KEY = /^rdv_([A-Za-z0-9]{1,32})_([A-Za-z0-9_-]{32,128})$/;
const MAX_KEY = 200;
const KEY_ID_BYTES = 6;
const SECRET_BYTES = 32;

/** A new key, to be shown once, and what is kept of it. */
export function createKey(fill: FillRandom, wanted: NewKey): { key: string; record: KeyRecord } {
  const bytes = Buffer.alloc(KEY_ID_BYTES + SECRET_BYTES);
  fill(bytes);
  const keyId = bytes.subarray(0, KEY_ID_BYTES).toString("hex");
  const key = `rdv_${keyId}_${bytes.subarray(KEY_ID_BYTES).toString("base64url")}`;
  return { key, record: recordOfKey(key, wanted) };
}

/** What is kept of a key that was made elsewhere; throws `INVALID_ARGUMENT` if it is none. */
export function recordOfKey(key: string, wanted: NewKey): KeyRecord {
  const parts = partsOf(key);
  if (parts === undefined) {
    const message =
      "an API key must be rdv_<id>_<secret of at least 32 characters>; make one with `redrive keys add`";
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const { tenantId, scopes, name = "", now, expiresAt = null, limits } = wanted;
  if (limits?.targets !== undefined) parseAllowlist(limits.targets);
  const secretHash = sha256(parts.secret).toString("hex");
  const base = { keyId: parts.keyId, tenantId, scopes, secretHash, name };
  return { ...base, createdAt: now, expiresAt, ...(limits !== undefined && { limits }) };
}

/** Compared with when there is no such key, so that it takes as long. */
const NO_HASH = Buffer.alloc(32);

/** The record of a key that is right and has not ended. */
export function verifyKey(keyStore: KeyStore, key: string, now: number): KeyRecord | undefined {
  const parts = partsOf(key) ?? { keyId: "", secret: "" };
  const record = keyStore.find(parts.keyId);
  const wanted = record === undefined ? NO_HASH : Buffer.from(record.secretHash, "hex");
  const isRight = timingSafeEqual(sha256(parts.secret), wanted);
  const isLive = record !== undefined && now < (record.expiresAt ?? Number.POSITIVE_INFINITY);
  return isRight && isLive ? record : undefined;
}

function partsOf(key: string): { readonly keyId: string; readonly secret: string } | undefined {
  const match = key.length <= MAX_KEY ? KEY.exec(key) : null;
  return match === null ? undefined : { keyId: match[1] ?? "", secret: match[2] ?? "" };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Keys that end with the process: those of the environment, and of tests. */
export function memoryKeyStore(records: readonly KeyRecord[] = []): KeyStore {
  const byId = new Map(records.map((record) => [record.keyId, record]));
  return {
    find: (keyId) => byId.get(keyId),
    list: () => [...byId.values()],
    add(record) {
      if (byId.has(record.keyId)) throw duplicateKey(record.keyId);
      byId.set(record.keyId, record);
    },
    revoke: (keyId) => byId.delete(keyId),
  };
}

const REFRESH_MS = 1000;

/**
 * Keys in a file. One that does not exist holds no keys; one that cannot be read throws. If it
 * becomes unreadable later, the keys that were known go on, and `onUnreadable` is lastMessage once (default: a
 * warning of the process): whoever calls is not to learn of it, nor to be shut out by it.
 */
export function fileKeyStore(
  path: string,
  clock: Clock,
  onUnreadable: (error: Error) => void = (error) => process.emitWarning(error.message),
): KeyStore {
  let records = new Map<string, KeyRecord>();
  let stamp = "";
  let loadedMs = Number.NEGATIVE_INFINITY;
  let lastMessage = "";

  function load(): void {
    loadedMs = clock.monotonicMs();
    const found = stampOf(path);
    if (found === stamp) return;
    records = new Map(readKeyFile(path).map((record) => [record.keyId, record]));
    stamp = found;
  }

  function refresh(): void {
    try {
      load();
      lastMessage = "";
    } catch (error) {
      const { message } = error as Error;
      if (message !== lastMessage) onUnreadable(error as Error);
      lastMessage = message;
    }
  }

  function write(): void {
    writeKeyFile(path, [...records.values()]);
    stamp = stampOf(path);
  }

  load();
  return {
    find(keyId) {
      if (clock.monotonicMs() - loadedMs >= REFRESH_MS) refresh();
      return records.get(keyId);
    },
    list() {
      refresh();
      return [...records.values()];
    },
    add(record) {
      load();
      if (records.has(record.keyId)) throw duplicateKey(record.keyId);
      records.set(record.keyId, record);
      write();
    },
    revoke(keyId) {
      load();
      if (!records.delete(keyId)) return false;
      write();
      return true;
    },
  };
}

function stampOf(path: string): string {
  try {
    const { ino, mtimeNs, size } = statSync(path, { bigint: true });
    return `${ino} ${mtimeNs} ${size}`;
  } catch (error) {
    // What stands below a file rather than a folder is not there either.
    if (["ENOENT", "ENOTDIR"].includes(String((error as NodeJS.ErrnoException).code))) return "";
    throw error;
  }
}

function readKeyFile(path: string): readonly KeyRecord[] {
  if (stampOf(path) === "") return [];
  const keyStore = parseFile(path);
  const keys: unknown = isObject(keyStore) ? keyStore["keys"] : undefined;
  if (!Array.isArray(keys)) throw invalidKeyFile(path, 'it must hold { "keys": [...] }');
  const bad = keys.findIndex((key) => !isKeyRecord(key));
  if (bad >= 0)
    throw invalidKeyFile(path, `keys[${bad}] is no key as \`redrive keys add\` writes them`);
  return keys as readonly KeyRecord[];
}

function parseFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw invalidKeyFile(path, "it cannot be read as JSON", cause);
  }
}

/** The file may have been edited by hand: what is compared and shown must be what it seems. */
function isKeyRecord(key: unknown): boolean {
  if (!isObject(key)) return false;
  const { keyId, tenantId, secretHash, scopes, expiresAt, limits = {} } = key;
  return (
    [keyId, tenantId].every((text) => typeof text === "string" && text !== "") &&
    /^[\da-f]{64}$/.test(String(secretHash)) &&
    Array.isArray(scopes) &&
    scopes.every((scope) => SCOPES.includes(scope)) &&
    (expiresAt === null || typeof expiresAt === "number") &&
    isObject(limits)
  );
}

function invalidKeyFile(path: string, why: string, cause?: unknown): Error {
  return serviceError("INVALID_ARGUMENT", `the keys in ${path} are of no use: ${why}`, cause);
}

/** Keys are often made before the first start, which would make the folder. */
function writeKeyFile(path: string, keys: readonly KeyRecord[]): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    replaceKeyFile(path, keys);
  } catch (cause) {
    const message = `cannot keep keys in ${path}: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

/** All of it or nothing: a crash leaves the old book or the new one. */
function replaceKeyFile(path: string, keys: readonly KeyRecord[]): void {
  const draft = `${path}.new`;
  const file = openSync(draft, "w", 0o600);
  try {
    writeSync(file, `${JSON.stringify({ keys }, null, 2)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(draft, path);
}

function duplicateKey(keyId: string): Error {
  return new RedriveError("INVALID_ARGUMENT", `there is a key ${quote(keyId)} already`);
}
