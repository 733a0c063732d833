/**
 * Access: what every request must pass before its route is asked: it means this host, it does not
 * come from a page of another origin, it brings plain JSON if anything, and its key may do what it
 * asks for. All of it holds on loopback too, since every web page can reach that.
 */
import { type Clock, createRate, type Rate, takeRate } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import { serviceError } from "../errors.ts";
import { type KeyBook, type KeyRecord, type Scope, verifyKey } from "./keys.ts";

/** Who asks. */
export interface Caller {
  readonly tenantId: string;
  readonly scopes: ReadonlySet<Scope>;
}

/** What a route asks of its caller's key; `public`: no key is needed. */
export type RouteScope = Scope | "public";

export interface AccessOptions {
  /** Undefined: nobody needs a key, which only loopback may offer. */
  readonly keys: KeyBook | undefined;
  /** Names, besides those of loopback, that `Host` may give. */
  readonly hosts: readonly string[];
  /** Who a request without keys is. */
  readonly open: Caller;
  readonly requestsPerSecond: number;
}

const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;
const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/;

export class Access {
  readonly #clock: Clock;
  readonly #options: AccessOptions;
  readonly #hosts: ReadonlySet<string>;
  readonly #callers = new WeakMap<KeyRecord, Caller>();
  readonly #rates = new Map<string, Rate>();

  constructor(clock: Clock, options: AccessOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#hosts = new Set(options.hosts.map((host) => host.toLowerCase()));
  }

  /** Throws what the answer is to be, or says who asks. */
  check(request: FastifyRequest, scope: RouteScope): Caller {
    this.#checkHost(request);
    checkOrigin(request);
    checkEncoding(request);
    const { keys, open } = this.#options;
    if (keys === undefined) return open;
    if (scope === "public") return NOBODY;
    const record = verifyKey(keys, bearerOf(request), this.#clock.now());
    if (record === undefined) throw serviceError("UNAUTHENTICATED", KEY_WANTED);
    this.#checkRate(record.keyId);
    const caller = this.#callerOf(record);
    if (caller.scopes.has(scope) || caller.scopes.has("admin")) return caller;
    throw serviceError("FORBIDDEN", `this API key lacks the scope ${scope}`);
  }

  /** A page that has its name point at 127.0.0.1 still sends that name. */
  #checkHost({ headers, raw }: FastifyRequest): void {
    const { host = "" } = headers;
    if (LOOPBACK_HOST.test(host)) return;
    const isLoopback = LOOPBACK_ADDRESS.test(raw.socket.localAddress ?? "");
    if (!isLoopback && this.#hosts.size === 0) return;
    const name = host.toLowerCase().replace(/:\d{1,5}$/, "");
    if (this.#hosts.has(name)) return;
    throw serviceError("WRONG_HOST", "the Host header names another host; list it in `hosts`");
  }

  #checkRate(keyId: string): void {
    const nowMs = this.#clock.monotonicMs();
    let rate = this.#rates.get(keyId);
    if (rate === undefined) {
      const perSecond = this.#options.requestsPerSecond;
      rate = createRate({ perSecond, burst: perSecond }, nowMs);
      this.#rates.set(keyId, rate);
    }
    if (takeRate(rate, nowMs)) return;
    const text = `this API key may send ${this.#options.requestsPerSecond} requests a second`;
    throw serviceError("TOO_MANY_REQUESTS", text);
  }

  #callerOf(record: KeyRecord): Caller {
    let caller = this.#callers.get(record);
    if (caller === undefined) {
      caller = { tenantId: record.tenantId, scopes: new Set(record.scopes) };
      this.#callers.set(record, caller);
    }
    return caller;
  }
}

/** A stranger at a public route: of no tenant, and with no scope. */
const NOBODY: Caller = { tenantId: "", scopes: new Set() };

const KEY_WANTED = "send a valid API key as `Authorization: Bearer rdv_...`";

function bearerOf({ headers }: FastifyRequest): string {
  const { authorization = "" } = headers;
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? "";
}

/** Browsers say where a page comes from; programs say nothing. Reading is left to the browser. */
function checkOrigin({ method, headers }: FastifyRequest): void {
  if (method === "GET" || method === "HEAD" || method === "OPTIONS") return;
  const { origin, host = "" } = headers;
  const isForeign = origin !== undefined && origin.replace(/^https?:\/\//i, "") !== host;
  if (isForeign || headers["sec-fetch-site"] === "cross-site") {
    throw serviceError("CROSS_ORIGIN", "pages of other origins may not change anything here");
  }
}

function checkEncoding({ headers }: FastifyRequest): void {
  const encoding = headers["content-encoding"];
  if (encoding === undefined || encoding === "identity") return;
  throw serviceError(
    "UNSUPPORTED_MEDIA_TYPE",
    "compressed bodies are not accepted: send plain JSON",
  );
}
