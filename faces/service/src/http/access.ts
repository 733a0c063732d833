/**
 * Access: the checks that every request passes before its route runs. The request names this host,
 * does not come from a page of another origin, has a plain JSON body or none, and its key has the
 * required scope. All checks apply on loopback too, because every web page can reach loopback.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
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
import type { IncomingMessage, ServerResponse } from "node:http";
import { dirname } from "node:path";
import process from "node:process";
import {
  type Clock,
  causedError,
  createRate,
  isObject,
  quote,
  type Rate,
  RedriveError,
  takeRate,
} from "@redrive/core";
import { parseAllowlist } from "../deliver/address-guard.ts";
import { serviceError } from "../model/errors.ts";
import type { FillRandom } from "../model/ids.ts";

type Session = ReturnType<Sessions["create"]>;

/** The caller of a request. */
export interface Caller {
  /** Null: no key is required. */
  readonly keyId: string | null;
  readonly tenantId: string;
  readonly scopes: ReadonlySet<Scope>;
  readonly limits: KeyLimits;
}

/** The part of a request that the checks read. */
type AccessRequest = Pick<IncomingMessage, "headers" | "method" | "socket">;

/** The scope that a route requires; `public` requires no key. */
export type RouteScope = Scope | "public";

interface AccessOptions {
  /** Undefined: no key is required. Only a loopback address may be used then. */
  readonly keys: KeyStore | undefined;
  /** Signs the sessions of browsers. */
  readonly sessions: Sessions;
  /** Names that the `Host` header may have, in addition to loopback names. */
  readonly hosts: readonly string[];
  /** The caller of every request when no keys are required. */
  readonly openCaller: Caller;
  /** Limits of keys that have no limits of their own. */
  readonly requestsPerSecond: number;
  readonly requestsAtOnce: number;
}

const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;
const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/;

export class Access {
  readonly #clock: Clock;
  readonly #options: AccessOptions;
  readonly #hosts: ReadonlySet<string>;
  readonly #callers = new WeakMap<KeyRecord, Caller>();
  readonly #rates = new Map<string, Rate>();
  /** Requests in progress, by key. */
  readonly #underWay = new Map<string, number>();

  constructor(clock: Clock, options: AccessOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#hosts = new Set(options.hosts.map((host) => host.toLowerCase()));
  }

  /**
   * Returns the caller, or throws the error to respond with. `isUpload`: its body is opaque, and is
   * stored and sent as it is.
   */
  check(
    request: AccessRequest,
    response: ServerResponse,
    scope: RouteScope,
    isUpload = false,
  ): Caller {
    this.#checkHost(request);
    checkOrigin(request);
    if (!isUpload) checkEncoding(request);
    const { keys, openCaller } = this.#options;
    if (keys === undefined) return openCaller;
    if (scope === "public") return PUBLIC_CALLER;
    const record = this.#recordOf(keys, request);
    if (record === undefined) throw serviceError("UNAUTHENTICATED", KEY_REQUIRED);
    this.#checkRate(record);
    this.#checkUnderWay(record, response);
    const caller = this.#callerOf(record);
    if (caller.scopes.has(scope) || caller.scopes.has("admin")) return caller;
    throw serviceError("FORBIDDEN", `this API key lacks the scope ${scope}`);
  }

  /** An API key takes precedence over a session. A browser sends its session without being asked. */
  #recordOf(keys: KeyStore, request: AccessRequest): KeyRecord | undefined {
    const { headers, method } = request;
    const now = this.#clock.now();
    if (headers.authorization !== undefined) return verifyKey(keys, bearerOf(request), now);
    const session = sessionIn(headers.cookie);
    if (session === undefined) return undefined;
    const record = this.#options.sessions.verify(keys, session, now);
    if (record !== undefined && !isRead(method) && headers.origin === undefined) {
      throw serviceError("CROSS_ORIGIN", "a write with a session needs the header Origin");
    }
    return record;
  }

  /** For responses that last: is the key or the session of the request still valid? */
  isStillValid(request: AccessRequest): boolean {
    const { keys } = this.#options;
    return keys === undefined || this.#recordOf(keys, request) !== undefined;
  }

  /** Exchanges a key for a session; undefined if no key is required. Throws `UNAUTHENTICATED`. */
  signIn(key: string): { readonly caller: Caller; readonly session: Session | undefined } {
    const { keys, openCaller, sessions } = this.#options;
    if (keys === undefined) return { caller: openCaller, session: undefined };
    const now = this.#clock.now();
    const record = verifyKey(keys, key, now);
    if (record === undefined) throw serviceError("UNAUTHENTICATED", "this API key is not valid");
    return { caller: this.#callerOf(record), session: sessions.create(record, now) };
  }

  /** Prevents DNS rebinding: a page whose name resolves to 127.0.0.1 still sends its own name. */
  #checkHost({ headers, socket }: AccessRequest): void {
    const { host = "" } = headers;
    if (LOOPBACK_HOST.test(host)) return;
    const isLoopback = LOOPBACK_ADDRESS.test(socket.localAddress ?? "");
    if (!isLoopback && this.#hosts.size === 0) return;
    const name = host.toLowerCase().replace(/:\d{1,5}$/, "");
    if (this.#hosts.has(name)) return;
    throw serviceError("WRONG_HOST", "the Host header names another host; list it in `hosts`");
  }

  #checkRate({ keyId, limits }: KeyRecord): void {
    const nowMs = this.#clock.monotonicMs();
    const perSecond = limits?.requestsPerSecond ?? this.#options.requestsPerSecond;
    let rate = this.#rates.get(keyId);
    // The key's limit may change while the service runs.
    if (rate?.options.perSecond !== perSecond) {
      rate = createRate({ perSecond, burst: perSecond }, nowMs);
      this.#rates.set(keyId, rate);
    }
    if (takeRate(rate, nowMs)) return;
    const text = `this API key may send ${perSecond} requests per second`;
    throw serviceError("TOO_MANY_REQUESTS", text);
  }

  /** A request is in progress until its response is sent or its connection is closed. */
  #checkUnderWay({ keyId, limits }: KeyRecord, response: ServerResponse): void {
    const max = limits?.requestsAtOnce ?? this.#options.requestsAtOnce;
    const count = this.#underWay.get(keyId) ?? 0;
    if (count >= max) {
      const text = `this API key may have ${max} concurrent requests`;
      throw serviceError("TOO_MANY_REQUESTS", text);
    }
    this.#underWay.set(keyId, count + 1);
    response.once("close", () => {
      const left = (this.#underWay.get(keyId) ?? 1) - 1;
      if (left > 0) this.#underWay.set(keyId, left);
      else this.#underWay.delete(keyId);
    });
  }

  #callerOf(record: KeyRecord): Caller {
    let caller = this.#callers.get(record);
    if (caller === undefined) {
      const { keyId, tenantId, scopes, limits = {} } = record;
      caller = { keyId, tenantId, scopes: new Set(scopes), limits };
      this.#callers.set(record, caller);
    }
    return caller;
  }
}

/** The caller of a public route without a key: it has no tenant and no scope. */
const PUBLIC_CALLER: Caller = { keyId: null, tenantId: "", scopes: new Set(), limits: {} };

const KEY_REQUIRED = "send a valid API key as `Authorization: Bearer rdv_...`";

function bearerOf({ headers }: AccessRequest): string {
  const { authorization = "" } = headers;
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? "";
}

function isRead(method: string | undefined): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

/** Browsers send the origin of a page; other programs do not. The browser itself protects reads. */
function checkOrigin({ method, headers }: AccessRequest): void {
  if (isRead(method)) return;
  const { origin, host = "" } = headers;
  const isForeign = origin !== undefined && origin.replace(/^https?:\/\//i, "") !== host;
  if (isForeign || headers["sec-fetch-site"] === "cross-site") {
    throw serviceError("CROSS_ORIGIN", "pages of other origins may only read");
  }
}

function checkEncoding({ headers }: AccessRequest): void {
  const encoding = headers["content-encoding"];
  if (encoding === undefined || encoding === "identity") return;
  throw serviceError(
    "UNSUPPORTED_MEDIA_TYPE",
    "compressed bodies are not accepted: send plain JSON",
  );
}

// Keys: the API keys. A key is `rdv_<keyId>_<secret>`. Only the SHA-256 of the secret is stored,
// which is enough for 256 random bits. The keys are in a JSON file (mode 0600) next to the
// database: one process owns the database, while another process creates keys. A write replaces the
// whole file, and the service reads a changed file within a second.

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

// Sessions: signs a browser in with a cookie, because an `EventSource` cannot send an API key. The
// cookie names the key, never contains it, and is signed. It is checked against the key of that
// moment, so a revoked key ends its sessions. Nodes with the same secret accept each other's
// sessions.

export const SESSION_COOKIE = "redrive_session";

/** A person signs in once per working day. */
const SESSION_MS = 12 * 3_600_000;

const SESSION = /^([A-Za-z0-9]{1,32})\.(\d{1,16})\.([A-Za-z0-9_-]{43})$/;
/** A browser sends one cookie; more than this is an attack. */
const MAX_COOKIES = 8192;

export class Sessions {
  readonly #secret: Uint8Array;

  /** `secret`: at least 32 bytes that nobody else knows. */
  constructor(secret: Uint8Array) {
    if (secret.length < 32)
      throw new Error(`a session secret needs 32 bytes, got ${secret.length}`);
    this.#secret = secret;
  }

  /** The value of the cookie, and when it expires: with the key, if that is earlier. */
  create(record: KeyRecord, now: number): { readonly value: string; readonly expiresAt: number } {
    const expiresAt = Math.min(now + SESSION_MS, record.expiresAt ?? Number.POSITIVE_INFINITY);
    const mac = this.#mac(record, expiresAt).toString("base64url");
    return { value: `${record.keyId}.${expiresAt}.${mac}`, expiresAt };
  }

  /** The key of a session; undefined: the session is not valid, or its key is not any more. */
  verify(keys: KeyStore, value: string, now: number): KeyRecord | undefined {
    const [, keyId = "", expiry = "", mac = ""] = SESSION.exec(value) ?? [];
    const record = keys.find(keyId);
    if (record === undefined) return undefined;
    const expiresAt = Number(expiry);
    const isRight = timingSafeEqual(Buffer.from(mac, "base64url"), this.#mac(record, expiresAt));
    const isLive = now < Math.min(expiresAt, record.expiresAt ?? Number.POSITIVE_INFINITY);
    return isRight && isLive ? record : undefined;
  }

  /** With the hash of the key, so that another key under the same id does not inherit the session. */
  #mac({ keyId, secretHash }: KeyRecord, expiresAt: number): Buffer {
    const text = `redrive session\n${keyId}\n${secretHash}\n${expiresAt}`;
    return createHmac("sha256", this.#secret).update(text).digest();
  }
}

/** The session of a request; undefined: it has none. */
function sessionIn(cookies: string | undefined): string | undefined {
  if (cookies === undefined || cookies.length > MAX_COOKIES) return undefined;
  for (const cookie of cookies.split(";")) {
    const at = cookie.indexOf("=");
    if (cookie.slice(0, at).trim() === SESSION_COOKIE) return cookie.slice(at + 1).trim();
  }
  return undefined;
}

/** `isSecure`: the page was loaded over https. `maxAgeMs` 0 removes the cookie. */
export function sessionCookie(value: string, maxAgeMs: number, isSecure: boolean): string {
  const age = `Max-Age=${Math.max(0, Math.floor(maxAgeMs / 1000))}`;
  const parts = [`${SESSION_COOKIE}=${value}`, "Path=/", age, "HttpOnly", "SameSite=Strict"];
  return [...parts, ...(isSecure ? ["Secure"] : [])].join("; ");
}
