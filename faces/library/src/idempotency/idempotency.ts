/**
 * Idempotency: lets a server honor idempotency keys. The first request with a key runs, and its
 * repetitions get the stored response. It is an interceptor: the adapters (`forNode` and so on) put it
 * in front of handlers.
 */
import { assertRange, invalidArgument, parseKeyHeader, RedriveError } from "@redrive/core";
import { notify } from "../call/call-event.ts";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { outside } from "../http/incoming.ts";
import {
  type HandlerRun,
  type Interceptor,
  PASS_ON,
  type PlainResponse,
  type ServedBody,
  type ServedRequest,
} from "../serve/interceptor.ts";
import {
  type IdempotencyConfig,
  type IdempotencyEvent,
  type IdempotencyOptions,
  resolveOptions,
} from "./idempotency-options.ts";
import type { ClaimResult, IdempotencyStore, TransactionalStore } from "./idempotency-store.ts";
import {
  bodyTooLarge,
  decodeOutcome,
  inProgress,
  keyInvalid,
  keyMissing,
  keyReused,
  OwnRequests,
  outcomeUnknown,
  type ResponseToStore,
  RunningRequest,
  requestBroken,
  responseNotStored,
  storeUnavailable,
} from "./running-request.ts";
import { type HashPart, sha256 } from "./sha256.ts";

/** What a handler can learn about the key of its request. */
export interface KeyClaim<Store extends IdempotencyStore = IdempotencyStore> {
  readonly key: string;
  /** Earlier requests with this key that ended without a response, as in a crash. */
  readonly takeovers: number;
  /** Aborted when another request may have taken the key over. Stop the work then. */
  readonly signal: AbortSignal;
  /**
   * Frees the key at once: a repetition runs. Only for a handler that knows that nothing happened. True
   * if the key is free now. False if it is not: an outcome is stored, the handler has ended, another
   * request holds the key, or the store did not answer (then the key is free when its lease ends).
   */
  release(): Promise<boolean>;
  /**
   * Sends the response as the handler writes it, for streams. Call it before the first byte. Only the
   * status is stored: a repetition gets a 410.
   */
  stream(): void;
  /**
   * Stores the response in the handler's own transaction, so that the effect and the key commit
   * together. Call it last in the transaction, then commit, then send the same response. Throws
   * `IDEMPOTENCY_LEASE_LOST` if another request has taken the key over; roll back then. Only with a
   * store that takes part in transactions.
   */
  readonly settleIn: SettleIn<Store>;
}

/** The arguments and the result of `settleIn`. On SQLite it is synchronous. */
type SettleIn<Store> =
  Store extends TransactionalStore<infer Tx, infer Settled>
    ? (tx: Tx, response: ResponseToStore) => Settled extends boolean ? undefined : Promise<void>
    : undefined;

export interface Idempotency<Native = unknown, Store extends IdempotencyStore = IdempotencyStore>
  extends Interceptor<Native> {
  /** The claim of a request that is being served; undefined if the request has no key. */
  claimOf(request: Native): KeyClaim<Store> | undefined;
  /**
   * For the end of a process, after its server was closed: waits until no request holds a key and every
   * outcome is stored. After `timeoutMs` (default: 10 s), the outcomes of handlers that still run are
   * stored as unknown. Returns how many outcomes are not stored.
   */
  drain(timeoutMs?: number): Promise<number>;
}

/** Throws for options that are not valid. The returned value serves any number of routes. */
export function idempotency<Native = unknown, Store extends IdempotencyStore = IdempotencyStore>(
  options: IdempotencyOptions<Native, Store>,
): Idempotency<Native, Store> {
  const config = resolveOptions(options as IdempotencyOptions);
  return new IdempotencyKeys(config) as unknown as Idempotency<Native, Store>;
}

class IdempotencyKeys implements Interceptor {
  readonly #config: IdempotencyConfig;
  readonly #sweeper: Sweeper;
  readonly #own: OwnRequests;
  readonly #running = new WeakMap<object, RunningRequest>();
  /** Of a claim: one attempt, with a time limit. The client repeats the request if it fails. */
  readonly #claimOptions: RetryOptions<ClaimResult>;

  constructor(config: IdempotencyConfig) {
    const { storeTimeoutMs, clock } = config;
    const limits = { attemptTimeoutMs: storeTimeoutMs, totalBudgetMs: storeTimeoutMs };
    this.#claimOptions = { maxAttempts: 1, nested: "retry", ...limits, clock };
    this.#config = config;
    this.#own = new OwnRequests(config);
    this.#sweeper = new Sweeper(config);
  }

  claimOf(request: object): RunningRequest | undefined {
    return this.#running.get(request);
  }

  async drain(timeoutMs = 10_000): Promise<number> {
    assertRange("timeoutMs", timeoutMs, 0, 3_600_000);
    return await this.#own.drain(timeoutMs);
  }

  async begin(request: ServedRequest): Promise<PlainResponse | HandlerRun> {
    const { methods, header, required } = this.#config;
    if (!methods.includes(request.method)) return PASS_ON;
    const value = request.header(header);
    if (value === undefined) return required ? keyMissing(this.#config) : PASS_ON;
    const key = this.#keyOf(value);
    return typeof key === "string" ? this.#beginWithKey(request, key) : key;
  }

  /** The key, or the response to a value that is none. */
  #keyOf(value: string): string | PlainResponse {
    const { quotedOnly, maxKeyLength } = this.#config;
    const parsed = parseKeyHeader(value);
    if (parsed === undefined || (quotedOnly && !parsed.isQuoted)) {
      const form = quotedOnly ? "a string in quotes" : "a string in quotes, or visible ASCII";
      return keyInvalid(this.#config, value, form);
    }
    if (parsed.key.length <= maxKeyLength) return parsed.key;
    return keyInvalid(this.#config, value, `at most ${maxKeyLength} characters`);
  }

  async #beginWithKey(request: ServedRequest, key: string): Promise<PlainResponse | HandlerRun> {
    const { scope, maxRequestBytes, ids } = this.#config;
    const read = await fingerprintOf(request, this.#config);
    if ("failure" in read) {
      const isTooLarge = read.failure === "too-large";
      return isTooLarge ? bodyTooLarge(this.#config, maxRequestBytes) : requestBroken(this.#config);
    }
    const { fingerprint } = read;
    const { method } = request;
    const storeKey = await sha256(["http", checkedScope(await scope(request)), key]);
    const wanted = { key, storeKey, owner: ids(), method, fingerprint };
    const result = this.#ownResult(storeKey) ?? (await this.#claim(wanted));
    if (result === undefined) return storeUnavailable(this.#config);
    if (result.kind !== "claimed") return this.#answerRepetition(wanted, result);
    const { takeovers } = result;
    this.#emit({ type: "claimed", method, takeovers });
    this.#sweeper.countClaim();
    const run = new RunningRequest(this.#config, this.#own, { ...wanted, takeovers });
    this.#running.set(request.native as object, run);
    return run;
  }

  /** What this process itself knows about a key: the store may have been away for longer than a lease. */
  #ownResult(storeKey: string): Repeated | undefined {
    const own = this.#own.get(storeKey);
    if (own === undefined) return undefined;
    const { fingerprint } = own.held;
    const result = own.waitingOutcome;
    if (result === undefined) return { kind: "running", fingerprint, leaseLeftMs: 0 };
    return { kind: "settled", fingerprint, result };
  }

  /** Undefined if the store failed or did not answer in time. */
  async #claim(wanted: WantedKey): Promise<Claimed> {
    const { method, storeKey, owner } = wanted;
    const { store } = this.#config;
    const claim = outside(() => this.#claimInStore(wanted));
    try {
      return await outside(() => retry(() => claim, this.#claimOptions));
    } catch (error) {
      this.#emit({ type: "store-failed", method, during: "claim", error });
      // A claim that succeeds too late would block the key until its lease ends.
      claim.then(() => store.release(storeKey, owner)).catch(() => undefined);
      return undefined;
    }
  }

  async #claimInStore({ storeKey, owner, fingerprint }: WantedKey): Promise<ClaimResult> {
    const { store, leaseMs, retentionMs, maxWaiting } = this.#config;
    if (this.#own.isFull) {
      const text = `the outcomes of ${maxWaiting} requests wait for the store`;
      throw new RedriveError("STORE_UNAVAILABLE", text);
    }
    return await store.claim(storeKey, { fingerprint, owner, leaseMs, retentionMs });
  }

  #answerRepetition({ method, fingerprint }: WantedKey, result: Repeated): PlainResponse {
    if (result.fingerprint !== fingerprint) {
      this.#emit({ type: "mismatch", method });
      return keyReused(this.#config);
    }
    if (result.kind === "running") {
      this.#emit({ type: "in-progress", method });
      return inProgress(this.#config);
    }
    const outcome = decodeOutcome(result.result);
    const { status } = outcome;
    this.#emit({ type: "replayed", method, status });
    if (!("missing" in outcome)) {
      const replayed = ["Idempotent-Replayed", outcome.isPart ? "part" : "true"] as const;
      return { ...outcome, headers: [...outcome.headers, replayed] };
    }
    const isUnknown = outcome.missing === "unknown";
    return isUnknown ? outcomeUnknown(this.#config) : responseNotStored(this.#config, status);
  }

  #emit(details: Omit<IdempotencyEvent, "at">): void {
    const { onEvent, clock } = this.#config;
    if (onEvent !== undefined) notify(onEvent, { ...details, at: clock.now() });
  }
}

interface WantedKey {
  readonly key: string;
  readonly storeKey: string;
  readonly owner: string;
  readonly method: string;
  readonly fingerprint: string;
}

type Claimed = ClaimResult | undefined;
type Repeated = Exclude<ClaimResult, { kind: "claimed" }>;

/** An empty scope would be shared by all callers that have none. */
function checkedScope(scope: unknown): string {
  if (typeof scope === "string" && scope !== "") return scope;
  throw invalidArgument("scope must return the name of the caller, a text", scope);
}

// The fingerprint is what a key stands for. Two requests with one key must have the same.

type Config = Pick<IdempotencyConfig, "fingerprintBody" | "fingerprintHeaders" | "maxRequestBytes">;

/** The fingerprint, or why the body could not be read. */
async function fingerprintOf(
  request: ServedRequest,
  config: Config,
): Promise<{ readonly fingerprint: string } | { readonly failure: "too-large" | "incomplete" }> {
  const { fingerprintHeaders, fingerprintBody, maxRequestBytes } = config;
  const body =
    fingerprintBody === undefined
      ? contentOf(await request.body(maxRequestBytes))
      : { content: await fingerprintBody(request) };
  if ("failure" in body) return body;
  const headers = fingerprintHeaders.map((name) => [name, request.header(name) ?? null]);
  const parts = [request.method, request.target, JSON.stringify(headers), body.content];
  return { fingerprint: await sha256(parts) };
}

/** A parsed body is written as JSON: the same bytes are parsed to the same value. */
function contentOf(
  body: ServedBody,
): { readonly content: HashPart } | { readonly failure: "too-large" | "incomplete" } {
  if (body.kind === "bytes") return { content: body.bytes };
  if (body.kind === "parsed") return { content: JSON.stringify(body.value) ?? "" };
  if (body.kind !== "gone") return { failure: body.kind };
  const text =
    "the body was read before the idempotency key was checked, and was not kept: set fingerprintBody";
  throw new RedriveError("INVALID_ARGUMENT", text);
}

const INTERVAL_MS = 10_000;
const MIN_KEYS = 100;
const MAX_KEYS = 1000;

/**
 * Removes expired keys from the store, in the background and in small steps. It removes keys faster than new
 * ones come, so a table does not grow without a limit.
 */
class Sweeper {
  readonly #config: IdempotencyConfig;
  #claims = 0;
  #sweptMs: number;

  constructor(config: IdempotencyConfig) {
    this.#config = config;
    this.#sweptMs = config.clock.monotonicMs();
  }

  /** Call it for each new key. Starts a sweep if the last one is long enough ago. */
  countClaim(): void {
    this.#claims++;
    const nowMs = this.#config.clock.monotonicMs();
    const isDue = nowMs - this.#sweptMs >= INTERVAL_MS || this.#claims >= MAX_KEYS / 2;
    if (!isDue) return;
    const limit = Math.min(MAX_KEYS, Math.max(MIN_KEYS, 2 * this.#claims));
    this.#sweptMs = nowMs;
    this.#claims = 0;
    void this.#sweep(limit);
  }

  async #sweep(limit: number): Promise<void> {
    const { store, onEvent, clock } = this.#config;
    try {
      await store.sweep(limit);
    } catch (error) {
      const at = clock.now();
      notify(onEvent, { type: "store-failed", at, method: "", during: "sweep", error });
    }
  }
}
