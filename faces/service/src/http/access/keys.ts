/**
 * Keys: the API keys. A key is `rdv_<keyId>_<secret>`. Only the SHA-256 of the secret is stored,
 * which is enough for 256 random bits. The keys are in a JSON file (mode 0600) next to the
 * database: one process owns the database, while another process creates keys. A write replaces the
 * whole file, and the service reads a changed file within a second.
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

/**
 * What a key may do. `admin` includes all other scopes and may change policies and destinations.
 */
export type Scope = (typeof SCOPES)[number];

export interface KeyRecord {
  readonly keyId: string;
  readonly tenantId: string;
  readonly scopes: readonly Scope[];
  /** SHA-256 of the secret, in hexadecimal. */
  readonly secretHash: string;
  /** A label for people. */
  readonly name: string;
  readonly createdAt: number;
  /** The key is rejected from this instant on; null: it does not expire. */
  readonly expiresAt: number | null;
  /** Limits of this key; the service's defaults apply where a limit is absent. */
  readonly limits?: KeyLimits;
}

export interface KeyLimits {
  /** Requests per second. */
  readonly requestsPerSecond?: number;
  /** Concurrent requests. */
  readonly requestsAtOnce?: number;
  /** Waiting tasks of its tenant at which the key may not create more. */
  readonly maxWaiting?: number;
  /** The only targets of its tasks: `cidr[:port]` or `name[:port]`, separated by commas. */
  readonly targets?: string;
}

export interface KeyStore {
  find(keyId: string): KeyRecord | undefined;
  list(): readonly KeyRecord[];
  /** Throws `INVALID_ARGUMENT` if the id exists. */
  add(record: KeyRecord): void;
  /** False if there is no such key. */
  revoke(keyId: string): boolean;
  /** Keys that are added outlast the process. */
  readonly isChangeable: boolean;
  /** False for a key that is set where the service is started. */
  isRevocable(keyId: string): boolean;
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

/** A new key, to be shown once, and the record to store. */
export function createKey(fill: FillRandom, wanted: NewKey): { key: string; record: KeyRecord } {
  const bytes = Buffer.alloc(KEY_ID_BYTES + SECRET_BYTES);
  fill(bytes);
  const keyId = bytes.subarray(0, KEY_ID_BYTES).toString("hex");
  const key = `rdv_${keyId}_${bytes.subarray(KEY_ID_BYTES).toString("base64url")}`;
  return { key, record: recordOfKey(key, wanted) };
}

/**
 * The record of a key that was created elsewhere; throws `INVALID_ARGUMENT` for a malformed key.
 */
export function recordOfKey(key: string, wanted: NewKey): KeyRecord {
  const parts = partsOf(key);
  if (parts === undefined) {
    const message =
      "an API key must be rdv_<id>_<secret of at least 32 characters>; create one with `redrive keys add`";
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const { tenantId, scopes, name = "", now, expiresAt = null, limits } = wanted;
  if (limits?.targets !== undefined) parseAllowlist(limits.targets);
  const secretHash = sha256(parts.secret).toString("hex");
  const base = { keyId: parts.keyId, tenantId, scopes, secretHash, name };
  return { ...base, createdAt: now, expiresAt, ...(limits !== undefined && { limits }) };
}

/** Compared with when the key is unknown, so that the check takes the same time. */
const NO_HASH = Buffer.alloc(32);

/** The record of a key whose secret matches and that has not expired. */
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

/** Keys in memory: those of the environment, and those of tests. */
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
    isChangeable: false,
    isRevocable: (keyId) => byId.has(keyId),
  };
}

const REFRESH_MS = 1000;

/**
 * Keys in a file. A missing file holds no keys; an unreadable one throws. If the file becomes
 * unreadable later, the known keys stay valid and `onUnreadable` is called once per message
 * (default: a process warning). Callers neither see the error nor lose access.
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
    isChangeable: true,
    isRevocable: (keyId) => records.has(keyId),
  };
}

function stampOf(path: string): string {
  try {
    const { ino, mtimeNs, size } = statSync(path, { bigint: true });
    return `${ino} ${mtimeNs} ${size}`;
  } catch (error) {
    // A path below a file instead of a folder does not exist either.
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
    throw invalidKeyFile(path, `keys[${bad}] is not a key record of \`redrive keys add\``);
  return keys as readonly KeyRecord[];
}

function parseFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw invalidKeyFile(path, "it cannot be read as JSON", cause);
  }
}

/** The file may have been edited by hand, so every field that is compared or shown is checked. */
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
  return serviceError("INVALID_ARGUMENT", `the key file ${path} is invalid: ${why}`, cause);
}

/** Keys are often created before the first start, which would create the folder. */
function writeKeyFile(path: string, keys: readonly KeyRecord[]): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    replaceKeyFile(path, keys);
  } catch (cause) {
    const message = `cannot write keys to ${path}: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

/** Atomic: a crash leaves either the old file or the new one. */
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
  return new RedriveError("INVALID_ARGUMENT", `the key ${quote(keyId)} already exists`);
}
