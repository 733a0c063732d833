/**
 * Idempotency: lets a server honor idempotency keys. The first request with a key runs, and its
 * repetitions get the stored response. It is an interceptor: the adapters (`forNode` and so on) put it
 * in front of handlers.
 */
import { invalidArgument, parseKeyHeader } from "@redrive/core";
import { sha256 } from "../bytes/sha256.ts";
import { notify } from "../call/call-event.ts";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import {
  type HandlerRun,
  type Interceptor,
  PASS_ON,
  type PlainResponse,
  type ServedRequest,
} from "../serve/interceptor.ts";
import type {
  ClaimResult,
  IdempotencyStore,
  TransactionalStore,
} from "../stores/idempotency-store.ts";
import {
  bodyTooLarge,
  inProgress,
  keyInvalid,
  keyMissing,
  keyReused,
  requestBroken,
  responseNotStored,
  storeUnavailable,
} from "./answers.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { IdempotencyEvent } from "./idempotency-event.ts";
import {
  type IdempotencyConfig,
  type IdempotencyOptions,
  resolveOptions,
} from "./idempotency-options.ts";
import { type ResponseToStore, RunningRequest } from "./running-request.ts";
import { decodeResponse } from "./stored-response.ts";
import { Sweeper } from "./sweeper.ts";

/** What a handler can learn about the key of its request. */
export interface KeyClaim<Store extends IdempotencyStore = IdempotencyStore> {
  readonly key: string;
  /** Earlier requests with this key that ended without a response, as in a crash. */
  readonly takeovers: number;
  /** Aborted when another request may have taken the key over. Stop the work then. */
  readonly signal: AbortSignal;
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
  readonly #running = new WeakMap<object, RunningRequest>();
  /** Of a claim: one attempt, with a time limit. The client repeats the request if it fails. */
  readonly #claimOptions: RetryOptions<ClaimResult>;

  constructor(config: IdempotencyConfig) {
    const { storeTimeoutMs, clock } = config;
    const limits = { attemptTimeoutMs: storeTimeoutMs, totalBudgetMs: storeTimeoutMs };
    this.#claimOptions = { maxAttempts: 1, nested: "retry", ...limits, clock };
    this.#config = config;
    this.#sweeper = new Sweeper(config);
  }

  claimOf(request: object): RunningRequest | undefined {
    return this.#running.get(request);
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
    const held = { key, storeKey, owner: ids(), method, fingerprint };
    const result = await this.#claim(held);
    if (result === undefined) return storeUnavailable(this.#config);
    if (result.kind !== "claimed") return this.#answerRepetition(held, result);
    const { takeovers } = result;
    this.#emit({ type: "claimed", method, takeovers });
    this.#sweeper.countClaim();
    const run = new RunningRequest(this.#config, { ...held, takeovers });
    this.#running.set(request.native as object, run);
    return run;
  }

  /** Undefined if the store failed or did not answer in time. */
  async #claim({ storeKey, owner, method, fingerprint }: WantedKey): Promise<Claimed> {
    const { store, leaseMs, retentionMs } = this.#config;
    const claim = store.claim(storeKey, { fingerprint, owner, leaseMs, retentionMs });
    try {
      return await retry(() => claim, this.#claimOptions);
    } catch (error) {
      this.#emit({ type: "store-failed", method, during: "claim", error });
      // A claim that succeeds too late would block the key until its lease ends.
      claim.then(() => store.release(storeKey, owner)).catch(() => undefined);
      return undefined;
    }
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
    const stored = decodeResponse(result.result);
    this.#emit({ type: "replayed", method, status: stored.status });
    if ("isTooLarge" in stored) return responseNotStored(this.#config, stored.status);
    return { ...stored, headers: [...stored.headers, ["Idempotent-Replayed", "true"]] };
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
