/**
 * Running request: a request that holds its key while its handler runs. It renews the lease, stores the
 * outcome before it is sent, and sends no response if another request has taken the key over.
 *
 * A handler that was called has an outcome, and the outcome is stored, whatever it is. Only three things
 * free the key: the handler did not run, it says that it had no effect, or `keepStatus` says so.
 */
import { type Cancel, quote, RedriveError } from "@redrive/core";
import { notify } from "../call/call-event.ts";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { outside } from "../http/incoming.ts";
import type { HandlerRun, PlainResponse } from "../serve/interceptor.ts";
import { sameBytes } from "../serve/node-http.ts";
import { type Problem, problemResponse } from "../serve/problem.ts";
import type { IdempotencyConfig, IdempotencyEvent } from "./idempotency-options.ts";
import type { TransactionalStore } from "./idempotency-store.ts";

interface HeldKey {
  /** The key as the client sent it. */
  readonly key: string;
  readonly storeKey: string;
  readonly owner: string;
  readonly method: string;
  readonly fingerprint: string;
  readonly takeovers: number;
}

/** A response that a handler gives to `settleIn`. */
export interface ResponseToStore {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
}

type AnyTransactionalStore = TransactionalStore<unknown, boolean | Promise<boolean>>;

/** What the store says to a release: it has freed the key, it has not, or it did not answer. */
type Released = "free" | "held" | "failed";

/**
 * How long a handler may go on after its client is gone where nobody sees its end, as in Express. After
 * that a repetition gets a 409. If the handler ends even later, its outcome is stored in place of that.
 */
const AFTER_CLOSE_MS = 60_000;

export class RunningRequest implements HandlerRun {
  readonly awaitsBody = true;
  readonly held: HeldKey;
  readonly #config: IdempotencyConfig;
  readonly #own: OwnRequests;
  readonly #startedMs: number;
  readonly #controller = new AbortController();
  #renewedMs: number;
  #cancelRenewal: Cancel;
  #cancelBound: Cancel = () => undefined;
  /** The response is sent as it is written. */
  #isStream = false;
  /** Another request holds the key. */
  #isLost = false;
  /** The handler has ended, and its outcome is known. */
  #hasEnded = false;
  /** The outcome counts as unknown, unless the handler ends after all. */
  #isUnknown = false;
  /** The client has its response, and the outcome waits for the store. */
  #isWaiting = false;
  /** The key is not held any more, or its outcome is stored. */
  #isStopped = false;
  /** What `settleIn` wrote. */
  #written: Uint8Array | undefined;
  /** What the store shall keep, and its status. */
  #outcome: Uint8Array = new Uint8Array();
  #status = 0;
  /** What the store has kept. */
  #stored: Uint8Array | undefined;
  #released: Promise<Released> | undefined;

  constructor(config: IdempotencyConfig, own: OwnRequests, held: HeldKey) {
    this.#config = config;
    this.#own = own;
    this.held = held;
    this.#startedMs = config.clock.monotonicMs();
    this.#renewedMs = this.#startedMs;
    this.#cancelRenewal = this.#planRenewal();
    own.add(this);
  }

  get key(): string {
    return this.held.key;
  }

  get takeovers(): number {
    return this.held.takeovers;
  }

  /** Aborted when another request may hold the key. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get holdBytes(): number {
    return this.#isStream ? 0 : this.#config.maxResponseBytes;
  }

  /** The outcome, if the client has its response and the store has not stored it yet. */
  get waitingOutcome(): Uint8Array | undefined {
    return this.#isWaiting ? this.#outcome : undefined;
  }

  stream(): void {
    this.#isStream = true;
  }

  settleIn(tx: unknown, response: ResponseToStore): undefined | Promise<undefined> {
    const { store, retentionMs } = this.#config;
    if (!("settleIn" in store)) {
      const text = "settleIn needs a store that takes part in transactions: SQLite or PostgreSQL";
      throw new RedriveError("INVALID_ARGUMENT", text);
    }
    const { storeKey, owner } = this.held;
    const result = this.#encode(plainOf(response));
    const settlement = { result, retentionMs };
    const settled = (store as AnyTransactionalStore).settleIn(tx, storeKey, owner, settlement);
    if (typeof settled === "boolean") return this.#acceptWrite(settled, result);
    return settled.then((isSettled) => this.#acceptWrite(isSettled, result));
  }

  #acceptWrite(isSettled: boolean, result: Uint8Array): undefined {
    if (!isSettled) {
      // After a release, the key belongs to nobody or to somebody else.
      if (this.#released === undefined) this.#lose();
      throw lostError();
    }
    this.#written = result;
  }

  async release(): Promise<boolean> {
    if (this.#released === undefined && (this.#hasEnded || this.#isLost)) return false;
    this.#released ??= this.#free({ type: "released" });
    return (await this.#released) === "free";
  }

  async respond(response: PlainResponse): Promise<PlainResponse> {
    return (await this.#end(response)) ? response : leaseLost(this.#config);
  }

  sent(status: number): void {
    void this.#end({ status, missing: "not-stored" });
  }

  async failed(error: unknown, answer: PlainResponse): Promise<PlainResponse | undefined> {
    if (!answer.notExecuted) this.#emit({ type: "handler-failed", error });
    return (await this.#end(answer)) ? undefined : leaseLost(this.#config);
  }

  gone(isOver: boolean, part?: PlainResponse): void {
    if (this.#hasEnded) return;
    this.#cancelBound();
    const keepUnknown = () => void this.keepUnknown(part);
    if (isOver) keepUnknown();
    else this.#cancelBound = this.#config.clock.alarm(AFTER_CLOSE_MS, keepUnknown, true);
  }

  /** For a handler that may never end. If it ends after all, its outcome is stored in place of this. */
  async keepUnknown(part?: PlainResponse): Promise<void> {
    if (this.#released !== undefined && (await this.#released) !== "held") return;
    if (this.#hasEnded || this.#isLost || this.#isUnknown) return;
    this.#isUnknown = true;
    this.#emit({ type: "outcome-unknown" });
    const isReplayed = part !== undefined && this.#config.cutOffResponse === "replay";
    const outcome = isReplayed ? { ...part, isPart: true } : UNKNOWN;
    const isOwn = await this.#keep(this.#encode(outcome), outcome.status);
    if (!isOwn) this.#reportLoss();
  }

  /** False if another request holds the key: then the response must not be sent. */
  async #end(outcome: StoredOutcome): Promise<boolean> {
    this.#hasEnded = true;
    this.#cancelBound();
    const isOwn = await this.#endOwn(outcome);
    if (!isOwn) this.#reportLoss();
    return isOwn;
  }

  async #endOwn(outcome: StoredOutcome): Promise<boolean> {
    const { status } = outcome;
    if (this.#isLost) return false;
    if (this.#released !== undefined && (await this.#released) !== "held") return true;
    const isFree = "headers" in outcome && outcome.notExecuted;
    if (isFree || !this.#config.keepStatus(status)) {
      await this.#free({ type: isFree ? "not-executed" : "not-kept", status });
      return true;
    }
    const result = this.#encode(outcome);
    if (this.#written === undefined || !sameBytes(this.#written, result)) {
      return await this.#keep(result, status);
    }
    this.#stop();
    this.#emit({ type: "stored", status });
    return true;
  }

  /** A response with too many headers is stored like one with too large a body. */
  #encode(outcome: StoredOutcome): Uint8Array {
    if (!("headers" in outcome)) return encodeOutcome(this.#statusOnly(outcome));
    const { maxHeaderBytes, maxResponseBytes, omitHeaders } = this.#config;
    const headers = storedHeaders(outcome.headers, omitHeaders);
    const headerBytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    const isTooLarge = headerBytes > maxHeaderBytes || outcome.body.length > maxResponseBytes;
    if (!isTooLarge) return encodeOutcome({ ...outcome, headers });
    return encodeOutcome(this.#statusOnly({ status: outcome.status, missing: "not-stored" }));
  }

  #statusOnly(outcome: Unrepeatable): Unrepeatable {
    const { status, missing } = outcome;
    if (missing === "not-stored") this.#emit({ type: "not-stored", status });
    return outcome;
  }

  /** False if another request holds the key. If the store fails, the client still gets its response. */
  async #keep(result: Uint8Array, status: number): Promise<boolean> {
    this.#outcome = result;
    this.#status = status;
    if (this.#isWaiting) {
      this.#fitWaiting();
      return true;
    }
    this.#own.add(this);
    try {
      return this.#accept(await this.#settle(this.#storePolicy));
    } catch (error) {
      this.#emit({ type: "store-failed", during: "settle", error });
      if (!this.#isWaiting) void this.#keepLater();
      return true;
    }
  }

  #accept(isSettled: boolean): boolean {
    this.#stop();
    if (isSettled) this.#emit({ type: "stored", status: this.#status });
    return isSettled;
  }

  /** Keeps the outcome in memory, and its key by its lease, until the store takes the outcome. */
  async #keepLater(): Promise<void> {
    const { clock, maxRunMs } = this.#config;
    const untilMs = clock.monotonicMs() + maxRunMs;
    // Behind a transaction that is open, further tries would only wait as well.
    const attemptTimeoutMs = this.#written === undefined ? 60_000 : 600_000;
    this.#isWaiting = true;
    this.#fitWaiting();
    for (let leftMs = maxRunMs; leftMs > 0; leftMs = untilMs - clock.monotonicMs()) {
      const limits = { attemptTimeoutMs, totalBudgetMs: leftMs, clock };
      if (await this.#isDone({ ...WAITING_POLICY, ...limits })) return;
      await clock.sleep(PAUSE_MS);
    }
    // A store may refuse a result because of its size, and take a smaller one.
    this.#shrink();
    if (await this.#isDone(this.#storePolicy)) return;
    this.#stop();
    this.#emit({ type: "outcome-lost", status: this.#status });
  }

  /** True if nothing waits for the store any more. */
  async #isDone(policy: RetryOptions<boolean>): Promise<boolean> {
    try {
      const isSettled = await this.#settle(policy);
      // The handler may have ended meanwhile, after its outcome counted as unknown.
      if (isSettled && this.#stored !== this.#outcome) return false;
      if (!this.#accept(isSettled)) this.#reportLoss();
      return true;
    } catch (error) {
      this.#emit({ type: "store-failed", during: "settle", error });
      return false;
    }
  }

  /** Outcomes that wait for the store have a limited place in memory. */
  #fitWaiting(): void {
    if (!this.#own.hasRoom()) this.#shrink();
  }

  #shrink(): void {
    const outcome = decodeOutcome(this.#outcome);
    if (!("headers" in outcome)) return;
    const { status } = outcome;
    this.#outcome = encodeOutcome(this.#statusOnly({ status, missing: "not-stored" }));
  }

  /**
   * False if another request holds the key. The deadline of the caller ends the calls of the handler, and
   * not this one. It reads the signal: a write may never be answered, and the next one may run beside it.
   */
  async #settle(policy: RetryOptions<boolean>): Promise<boolean> {
    return await outside(() => retry(({ signal }) => this.#settleOnce(signal), policy));
  }

  async #settleOnce(signal: AbortSignal): Promise<boolean> {
    const { store, leaseMs, retentionMs } = this.#config;
    const { storeKey, owner } = this.held;
    const result = this.#outcome;
    // What the handler's own transaction has stored is the outcome, whatever came after its commit.
    const isOpen = this.#written === undefined || (await store.renew(storeKey, owner, leaseMs));
    signal.throwIfAborted();
    const isSettled = !isOpen || (await store.settle(storeKey, owner, { result, retentionMs }));
    if (isSettled) this.#stored = result;
    return isSettled;
  }

  async #free(event: EventDetails): Promise<Released> {
    try {
      const isFree = await outside(() => retry(() => this.#releaseOnce(), this.#storePolicy));
      if (isFree) this.#emit(event);
      return isFree ? "free" : "held";
    } catch (error) {
      this.#emit(event);
      this.#emit({ type: "store-failed", during: "release", error });
      return "failed";
    } finally {
      this.#stop();
    }
  }

  /**
   * That this request had no effect says nothing about those before it, which ended without an outcome. Then
   * the lease ends instead: the next request learns of them by its takeovers.
   */
  async #releaseOnce(): Promise<boolean> {
    const { store } = this.#config;
    const { storeKey, owner, takeovers } = this.held;
    if (takeovers > 0) return await store.renew(storeKey, owner, 1);
    return await store.release(storeKey, owner);
  }

  get #storePolicy(): RetryOptions<boolean> {
    const { storeTimeoutMs, clock } = this.#config;
    return { ...STORE_POLICY, totalBudgetMs: storeTimeoutMs, clock };
  }

  /** After a renewal that failed, the next one comes soon: the lease is lost only with the store. */
  #planRenewal(hasFailed = false): Cancel {
    const { clock, leaseMs } = this.#config;
    const waitMs = Math.floor(leaseMs / (hasFailed ? 30 : 3));
    return clock.alarm(waitMs, () => void this.#renew(), true);
  }

  async #renew(): Promise<void> {
    const { leaseMs, clock } = this.#config;
    const nowMs = clock.monotonicMs();
    this.#limitRun(nowMs);
    let hasFailed = false;
    try {
      const isHeld = await this.#renewOnce();
      if (isHeld) this.#renewedMs = nowMs;
      // A key whose result is written is not renewed. Whether it was still held, the store has checked.
      else if (!this.#isSettling) return this.#lose();
    } catch (error) {
      hasFailed = true;
      this.#emit({ type: "store-failed", during: "renew", error });
      // Nobody knows who holds the key now. The store decides when the response is stored.
      if (clock.monotonicMs() - this.#renewedMs >= leaseMs) this.#controller.abort(lostError());
    }
    if (!this.#isStopped) this.#cancelRenewal = this.#planRenewal(hasFailed);
  }

  /** A store that does not answer must not keep the next renewal from being tried. */
  async #renewOnce(): Promise<boolean> {
    const { store, leaseMs, storeTimeoutMs, clock } = this.#config;
    const { storeKey, owner } = this.held;
    const totalBudgetMs = Math.min(storeTimeoutMs, Math.ceil(leaseMs / 3));
    const policy = { ...STORE_POLICY, maxAttempts: 1, totalBudgetMs, clock };
    return await outside(() => retry(() => store.renew(storeKey, owner, leaseMs), policy));
  }

  get #isSettling(): boolean {
    return this.#isStopped || this.#hasEnded || this.#isUnknown || this.#written !== undefined;
  }

  #limitRun(nowMs: number): void {
    const isLong = nowMs - this.#startedMs >= this.#config.maxRunMs;
    if (!isLong || this.#hasEnded || this.#isUnknown) return;
    this.#emit({ type: "run-too-long" });
    void this.keepUnknown();
  }

  #reportLoss(): void {
    this.#emit({ type: "lease-lost" });
    this.#lose();
  }

  #lose(): void {
    this.#isLost = true;
    this.#stop();
    this.#controller.abort(lostError());
  }

  #stop(): void {
    this.#isStopped = true;
    this.#isWaiting = false;
    this.#cancelRenewal();
    this.#own.delete(this);
  }

  #emit(details: EventDetails): void {
    const { onEvent, clock } = this.#config;
    const event: IdempotencyEvent = { ...details, at: clock.now(), method: this.held.method };
    notify(onEvent, event);
  }
}

/**
 * Own requests: the requests of this process that hold a key. While one of them lives, no repetition in
 * this process runs, even if the store could not be reached for longer than the lease.
 */
export class OwnRequests {
  readonly #config: IdempotencyConfig;
  readonly #byKey = new Map<string, RunningRequest>();
  readonly #onIdle: (() => void)[] = [];

  constructor(config: IdempotencyConfig) {
    this.#config = config;
  }

  get(storeKey: string): RunningRequest | undefined {
    return this.#byKey.get(storeKey);
  }

  add(request: RunningRequest): void {
    this.#byKey.set(request.held.storeKey, request);
  }

  delete(request: RunningRequest): void {
    const { storeKey } = request.held;
    if (this.#byKey.get(storeKey) === request) this.#byKey.delete(storeKey);
    if (this.#byKey.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Whether so many outcomes wait for the store that no request with a key may start. */
  get isFull(): boolean {
    // Only outcomes of requests that still hold their key wait.
    const { maxWaiting } = this.#config;
    return this.#byKey.size >= maxWaiting && this.#waiting().length >= maxWaiting;
  }

  /** Whether the outcomes that wait for the store fit into memory. */
  hasRoom(): boolean {
    const bytes = this.#waiting().reduce((sum, { length }) => sum + length, 0);
    return bytes <= this.#config.maxWaitingBytes;
  }

  #waiting(): Uint8Array[] {
    return [...this.#byKey.values()].flatMap(({ waitingOutcome }) => waitingOutcome ?? []);
  }

  async drain(timeoutMs: number): Promise<number> {
    await this.#untilIdle(timeoutMs);
    const running = [...this.#byKey.values()];
    // The process is about to end. A handler that is cut off then may have had its effect.
    for (const request of running) void request.keepUnknown();
    if (running.length > 0) await this.#untilIdle(this.#config.storeTimeoutMs);
    return this.#byKey.size;
  }

  async #untilIdle(timeoutMs: number): Promise<void> {
    if (this.#byKey.size === 0) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#config.clock.alarm(timeoutMs, resolve);
      this.#onIdle.push(() => {
        cancel();
        resolve();
      });
    });
  }
}

type EventDetails = Omit<IdempotencyEvent, "at" | "method">;

const UNKNOWN: Unrepeatable = { status: 0, missing: "unknown" };

/** The store may have done what it did not confirm. All of these may be repeated. */
const STORE_POLICY: RetryOptions<boolean> = {
  maxAttempts: 3,
  initialDelayMs: 20,
  attemptTimeoutMs: 600_000,
  nested: "retry",
  rejectWith: "last-error",
};

/** For an outcome that waits. Several requests a second of a store that is down would hinder its return. */
const WAITING_POLICY: RetryOptions<boolean> = {
  maxAttempts: 1000,
  initialDelayMs: 200,
  maxDelayMs: 2000,
  nested: "retry",
  rejectWith: "last-error",
  // What looks like a mistake, such as a table that is missing, may be corrected meanwhile.
  classify: (result) => ("error" in result ? "transient" : undefined),
};

/** Between two series of tries. */
const PAUSE_MS = 1000;

function lostError(): RedriveError {
  const text = "another request has taken over the idempotency key of this one, or it was released";
  return new RedriveError("IDEMPOTENCY_LEASE_LOST", text);
}

function plainOf({ status, headers = {}, body = "" }: ResponseToStore): PlainResponse {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return { status, headers: Object.entries(headers), body: bytes };
}

// The responses that a server gives for a key instead of running the handler.

type Config = Pick<IdempotencyConfig, "documentationUrl" | "header">;

function answer({ documentationUrl }: Config, problem: Problem): PlainResponse {
  return problemResponse({ ...problem, documentationUrl });
}

/** For answers that say that this request was not executed. */
function refuse(config: Config, problem: Problem): PlainResponse {
  return answer(config, { ...problem, notExecuted: true });
}

/** How long a repetition should wait. The duration of the first request is not known. */
const RETRY_SECONDS = 1;

export function keyMissing(config: Config): PlainResponse {
  const { header } = config;
  return refuse(config, {
    status: 400,
    code: "IDEMPOTENCY_KEY_REQUIRED",
    title: `${header} is missing`,
    detail: `this request must have the header ${header}, with a unique value that its repetitions keep`,
  });
}

export function keyInvalid(config: Config, value: string, wanted: string): PlainResponse {
  return refuse(config, {
    status: 400,
    code: "IDEMPOTENCY_KEY_INVALID",
    title: `${config.header} is invalid`,
    detail: `${config.header} must be ${wanted}, got ${quote(value)}`,
  });
}

export function bodyTooLarge(config: Config, maxBytes: number): PlainResponse {
  return refuse(config, {
    status: 413,
    code: "BODY_TOO_LARGE",
    title: "The body is too large",
    detail: `a request with an idempotency key may have a body of ${maxBytes} bytes`,
  });
}

export function requestBroken(config: Config): PlainResponse {
  return refuse(config, {
    status: 400,
    code: "INVALID_REQUEST",
    title: "The request is incomplete",
    detail: "the connection was closed before the request was complete",
  });
}

export function keyReused(config: Config): PlainResponse {
  return refuse(config, {
    status: 422,
    code: "IDEMPOTENCY_CONFLICT",
    title: `${config.header} was used with another request`,
    detail: "a key stands for one request: use a new key for a request with other content",
  });
}

export function inProgress(config: Config): PlainResponse {
  return refuse(config, {
    status: 409,
    code: "IDEMPOTENCY_IN_PROGRESS",
    title: "A request with this key is in progress",
    detail: "send the request again later to get the response of the first one",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

function leaseLost(config: Config): PlainResponse {
  return answer(config, {
    status: 409,
    code: "IDEMPOTENCY_LEASE_LOST",
    title: "Another request has taken over this key",
    detail:
      "this request ran longer than its lease, and a repetition runs in its place: send the request again to get the response of that one",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

export function responseNotStored(config: Config, status: number): PlainResponse {
  return answer(config, {
    status: 410,
    code: "IDEMPOTENCY_RESPONSE_NOT_STORED",
    title: "The response was not stored",
    detail: `the first request with this key was executed with status ${status}; its response was too large to store, or a stream, and cannot be sent again`,
  });
}

export function outcomeUnknown(config: Config): PlainResponse {
  return answer(config, {
    status: 409,
    code: "IDEMPOTENCY_OUTCOME_UNKNOWN",
    title: "Nobody knows how the first request with this key ended",
    detail:
      "it was started and may have had its effect, so it is not executed again: find out what it did before you send the request with a new key",
  });
}

export function storeUnavailable(config: Config): PlainResponse {
  return refuse(config, {
    status: 503,
    code: "STORE_UNAVAILABLE",
    title: "The store of idempotency keys is not available",
    detail: "the request was not executed: send it again later with the same key",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

// The outcome of a request as bytes for the store, and back. The head is a line of JSON, and the body of the
// response follows byte for byte.

/** The outcome of a request whose response cannot be sent again. */
interface Unrepeatable {
  /** 0 if the handler has set none. */
  readonly status: number;
  /** `not-stored`: it was too large, or a stream. `unknown`: nobody knows how the request ended. */
  readonly missing: "not-stored" | "unknown";
}

/** `isPart`: the client left before the handler had written the rest. */
type StoredOutcome = (PlainResponse & { readonly isPart?: boolean }) | Unrepeatable;

interface Head {
  readonly version: 1;
  readonly status: number;
  /** Absent if there is no response. */
  readonly headers?: PlainResponse["headers"];
  readonly isUnknown?: true;
  readonly isPart?: true;
}

/** Belong to the connection or to the moment, not to the response (RFC 9110 section 7.6.1). */
const CONNECTION_HEADERS =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|date)$/i;

const LINE_END = 10;

const DECODER = /* @__PURE__ */ new TextDecoder();

/** The head of a response as it is stored. */
function storedHeaders(
  headers: PlainResponse["headers"],
  omitted: readonly string[],
): PlainResponse["headers"] {
  return headers.filter(
    ([name]) => !CONNECTION_HEADERS.test(name) && !omitted.includes(name.toLowerCase()),
  );
}

function encodeOutcome(outcome: StoredOutcome): Uint8Array {
  const { status } = outcome;
  if ("missing" in outcome) {
    const isUnknown = outcome.missing === "unknown";
    return encode({ version: 1, status, ...(isUnknown && { isUnknown }) }, new Uint8Array());
  }
  const { headers, body, isPart = false } = outcome;
  return encode({ version: 1, status, headers, ...(isPart && { isPart }) }, body);
}

function encode(head: Head, body: Uint8Array): Uint8Array {
  // Header values are Latin-1, which JSON keeps. JSON never contains a line end.
  const line = new TextEncoder().encode(`${JSON.stringify(head)}\n`);
  const bytes = new Uint8Array(line.length + body.length);
  bytes.set(line);
  bytes.set(body, line.length);
  return bytes;
}

export function decodeOutcome(bytes: Uint8Array): StoredOutcome {
  const end = bytes.indexOf(LINE_END);
  const head = JSON.parse(DECODER.decode(bytes.subarray(0, end))) as Head;
  const { status, headers, isUnknown, isPart = false } = head;
  if (headers === undefined) return { status, missing: isUnknown ? "unknown" : "not-stored" };
  return { status, headers, body: bytes.subarray(end + 1), isPart };
}
