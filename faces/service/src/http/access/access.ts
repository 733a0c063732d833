/**
 * Access: what every request must pass before its route is asked: it means this host, it does not
 * come from a page of another origin, it brings plain JSON if anything, and its key may do what it
 * asks for. All of it holds on loopback too, since every web page can reach that.
 */
import { type Clock, createRate, type Rate, takeRate } from "@redrive/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { type KeyLimits, type KeyRecord, type KeyStore, type Scope, verifyKey } from "./keys.ts";

/** Who asks. */
export interface Caller {
  readonly tenantId: string;
  readonly scopes: ReadonlySet<Scope>;
  readonly limits: KeyLimits;
}

/** What a route asks of its caller's key; `public`: no key is needed. */
export type RouteScope = Scope | "public";

export interface AccessOptions {
  /** Undefined: nobody needs a key, which only loopback may offer. */
  readonly keys: KeyStore | undefined;
  /** Names, besides those of loopback, that `Host` may give. */
  readonly hosts: readonly string[];
  /** Who a request without keys is. */
  readonly openCaller: Caller;
  /** What a key may do that has no limits of its own. */
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
  /** Requests under way, by key. */
  readonly #underWay = new Map<string, number>();

  constructor(clock: Clock, options: AccessOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#hosts = new Set(options.hosts.map((host) => host.toLowerCase()));
  }

  /** Throws what the answer is to be, or says who asks. */
  check(request: FastifyRequest, reply: FastifyReply, scope: RouteScope): Caller {
    this.#checkHost(request);
    checkOrigin(request);
    checkEncoding(request);
    const { keys, openCaller } = this.#options;
    if (keys === undefined) return openCaller;
    if (scope === "public") return PUBLIC_CALLER;
    const record = verifyKey(keys, bearerOf(request), this.#clock.now());
    if (record === undefined) throw serviceError("UNAUTHENTICATED", KEY_REQUIRED);
    this.#checkRate(record);
    this.#checkUnderWay(record, reply);
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

  #checkRate({ keyId, limits }: KeyRecord): void {
    const nowMs = this.#clock.monotonicMs();
    const perSecond = limits?.requestsPerSecond ?? this.#options.requestsPerSecond;
    let rate = this.#rates.get(keyId);
    // The key's limit may have been changed while the service runs.
    if (rate?.options.perSecond !== perSecond) {
      rate = createRate({ perSecond, burst: perSecond }, nowMs);
      this.#rates.set(keyId, rate);
    }
    if (takeRate(rate, nowMs)) return;
    const text = `this API key may send ${perSecond} requests a second`;
    throw serviceError("TOO_MANY_REQUESTS", text);
  }

  /** A request is under way until its answer is out, or its caller is gone. */
  #checkUnderWay({ keyId, limits }: KeyRecord, reply: FastifyReply): void {
    const max = limits?.requestsAtOnce ?? this.#options.requestsAtOnce;
    const count = this.#underWay.get(keyId) ?? 0;
    if (count >= max) {
      const text = `this API key may have ${max} requests under way at once`;
      throw serviceError("TOO_MANY_REQUESTS", text);
    }
    this.#underWay.set(keyId, count + 1);
    reply.raw.once("close", () => {
      const left = (this.#underWay.get(keyId) ?? 1) - 1;
      if (left > 0) this.#underWay.set(keyId, left);
      else this.#underWay.delete(keyId);
    });
  }

  #callerOf(record: KeyRecord): Caller {
    let caller = this.#callers.get(record);
    if (caller === undefined) {
      const { tenantId, scopes, limits = {} } = record;
      caller = { tenantId, scopes: new Set(scopes), limits };
      this.#callers.set(record, caller);
    }
    return caller;
  }
}

/** A stranger at a public route: of no tenant, and with no scope. */
const PUBLIC_CALLER: Caller = { tenantId: "", scopes: new Set(), limits: {} };

const KEY_REQUIRED = "send a valid API key as `Authorization: Bearer rdv_...`";

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
