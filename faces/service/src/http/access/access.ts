/**
 * Access: the checks that every request passes before its route runs. The request names this host,
 * does not come from a page of another origin, has a plain JSON body or none, and its key has the
 * required scope. All checks apply on loopback too, because every web page can reach loopback.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Clock, createRate, type Rate, takeRate } from "@redrive/core";
import { serviceError } from "../../model/errors.ts";
import { type KeyLimits, type KeyRecord, type KeyStore, type Scope, verifyKey } from "./keys.ts";
import { type Sessions, sessionIn } from "./sessions.ts";

export type Session = ReturnType<Sessions["create"]>;

/** The caller of a request. */
export interface Caller {
  /** Null: no key is required. */
  readonly keyId: string | null;
  readonly tenantId: string;
  readonly scopes: ReadonlySet<Scope>;
  readonly limits: KeyLimits;
}

/** The part of a request that the checks read. */
export type AccessRequest = Pick<IncomingMessage, "headers" | "method" | "socket">;

/** The scope that a route requires; `public` requires no key. */
export type RouteScope = Scope | "public";

export interface AccessOptions {
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
