/**
 * Running request: a request that holds its key while its handler runs. It renews the lease, stores the
 * response before it is sent, and sends no response if another request has taken the key over.
 */
import { type Cancel, RedriveError } from "@redrive/core";
import { notify } from "../call/call-event.ts";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import type { HandlerRun, PlainResponse } from "../serve/interceptor.ts";
import type { TransactionalStore } from "../stores/idempotency-store.ts";
import { leaseLost } from "./answers.ts";
import type { IdempotencyEvent } from "./idempotency-event.ts";
import type { IdempotencyConfig } from "./idempotency-options.ts";
import { encodeResponse, encodeTooLarge, storedHeaders } from "./stored-response.ts";

export interface HeldKey {
  /** The key as the client sent it. */
  readonly key: string;
  readonly storeKey: string;
  readonly owner: string;
  readonly method: string;
  readonly takeovers: number;
}

/** A response that a handler gives to `settleIn`. */
export interface ResponseToStore {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
}

type AnyTransactionalStore = TransactionalStore<unknown, boolean | Promise<boolean>>;

export class RunningRequest implements HandlerRun {
  readonly holdBytes: number;
  readonly #config: IdempotencyConfig;
  readonly #held: HeldKey;
  readonly #startedMs: number;
  readonly #controller = new AbortController();
  #renewedMs: number;
  #cancelRenewal: Cancel;
  #isLost = false;
  #isOver = false;
  /** What `settleIn` wrote. */
  #written: Uint8Array | undefined;

  constructor(config: IdempotencyConfig, held: HeldKey) {
    this.#config = config;
    this.#held = held;
    this.holdBytes = config.maxResponseBytes;
    this.#startedMs = config.clock.monotonicMs();
    this.#renewedMs = this.#startedMs;
    this.#cancelRenewal = this.#planRenewal();
  }

  get key(): string {
    return this.#held.key;
  }

  get takeovers(): number {
    return this.#held.takeovers;
  }

  /** Aborted when another request may hold the key. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  settleIn(tx: unknown, response: ResponseToStore): undefined | Promise<undefined> {
    const { store, retentionMs } = this.#config;
    if (!("settleIn" in store)) {
      const text = "settleIn needs a store that takes part in transactions: SQLite or PostgreSQL";
      throw new RedriveError("INVALID_ARGUMENT", text);
    }
    const { storeKey, owner } = this.#held;
    const result = this.#encode(plainOf(response));
    const settlement = { result, retentionMs };
    const settled = (store as AnyTransactionalStore).settleIn(tx, storeKey, owner, settlement);
    if (typeof settled === "boolean") return this.#acceptWrite(settled, result);
    return settled.then((isSettled) => this.#acceptWrite(isSettled, result));
  }

  #acceptWrite(isSettled: boolean, result: Uint8Array): undefined {
    if (!isSettled) {
      this.#lose();
      throw lostError();
    }
    this.#written = result;
  }

  async respond(response: PlainResponse): Promise<PlainResponse> {
    this.#stop();
    if (this.#isLost) return this.#refuse();
    const { status } = response;
    const result = this.#encode(response);
    if (this.#written !== undefined && isSame(this.#written, result)) {
      this.#emit({ type: "stored", status });
      return response;
    }
    if (!this.#config.keepStatus(status)) {
      await this.#release({ type: "not-kept", status });
      return response;
    }
    return (await this.#settle(result, status)) ? response : this.#refuse();
  }

  sent(status: number): void {
    this.#stop();
    if (this.#config.keepStatus(status)) void this.#settle(encodeTooLarge(status), status);
    else void this.#release({ type: "not-kept", status });
  }

  async failed(error: unknown): Promise<PlainResponse | undefined> {
    this.#stop();
    if (this.#isLost) return this.#refuse();
    await this.#release({ type: "handler-failed", error });
    return undefined;
  }

  /** A response with too many headers is stored like one with too large a body. */
  #encode({ status, headers, body }: PlainResponse): Uint8Array {
    const { maxHeaderBytes, maxResponseBytes, omitHeaders } = this.#config;
    const kept = storedHeaders(headers, omitHeaders);
    const headerBytes = kept.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    const isTooLarge = headerBytes > maxHeaderBytes || body.length > maxResponseBytes;
    return isTooLarge ? encodeTooLarge(status) : encodeResponse({ status, headers: kept, body });
  }

  /** False if another request holds the key. If the store fails, the client still gets its response. */
  async #settle(result: Uint8Array, status: number): Promise<boolean> {
    const { store, retentionMs } = this.#config;
    const { storeKey, owner } = this.#held;
    const settle = () => store.settle(storeKey, owner, { result, retentionMs });
    try {
      const isSettled = await retry(settle, this.#storePolicy);
      if (isSettled) this.#emit({ type: "stored", status });
      return isSettled;
    } catch (error) {
      this.#emit({ type: "store-failed", during: "settle", error });
      return true;
    }
  }

  async #release(event: EventDetails): Promise<void> {
    const { store } = this.#config;
    const { storeKey, owner } = this.#held;
    this.#emit(event);
    try {
      await retry(() => store.release(storeKey, owner), this.#storePolicy);
    } catch (error) {
      this.#emit({ type: "store-failed", during: "release", error });
    }
  }

  get #storePolicy(): RetryOptions<boolean> {
    const { storeTimeoutMs, clock } = this.#config;
    return { ...STORE_POLICY, totalBudgetMs: storeTimeoutMs, clock };
  }

  #refuse(): PlainResponse {
    this.#emit({ type: "lease-lost" });
    return leaseLost(this.#config);
  }

  #planRenewal(): Cancel {
    const { clock, leaseMs } = this.#config;
    // Two renewals may fail before the lease ends.
    return clock.alarm(Math.floor(leaseMs / 3), () => void this.#renew(), true);
  }

  async #renew(): Promise<void> {
    const { store, leaseMs, maxRunMs, clock } = this.#config;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#startedMs >= maxRunMs) return this.#emit({ type: "run-too-long" });
    try {
      const isHeld = await store.renew(this.#held.storeKey, this.#held.owner, leaseMs);
      if (isHeld) this.#renewedMs = nowMs;
      // A key whose result is written is not renewed. Whether it was still held, `settleIn` has checked.
      else if (!this.#isOver && this.#written === undefined) return this.#lose();
    } catch (error) {
      this.#emit({ type: "store-failed", during: "renew", error });
      // Nobody knows who holds the key now. The store decides when the response is stored.
      if (clock.monotonicMs() - this.#renewedMs >= leaseMs) this.#controller.abort(lostError());
    }
    if (!this.#isOver) this.#cancelRenewal = this.#planRenewal();
  }

  #lose(): void {
    this.#isLost = true;
    this.#controller.abort(lostError());
  }

  #stop(): void {
    this.#isOver = true;
    this.#cancelRenewal();
  }

  #emit(details: EventDetails): void {
    const { onEvent, clock } = this.#config;
    const event: IdempotencyEvent = { ...details, at: clock.now(), method: this.#held.method };
    notify(onEvent, event);
  }
}

type EventDetails = Omit<IdempotencyEvent, "at" | "method">;

/** The store may have done what it did not confirm. All of these may be repeated. */
const STORE_POLICY: RetryOptions<boolean> = {
  maxAttempts: 3,
  initialDelayMs: 20,
  attemptTimeoutMs: 600_000,
  nested: "retry",
  rejectWith: "last-error",
};

function lostError(): RedriveError {
  const text = "another request has taken over the idempotency key of this one";
  return new RedriveError("IDEMPOTENCY_LEASE_LOST", text);
}

function plainOf({ status, headers = {}, body = "" }: ResponseToStore): PlainResponse {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return { status, headers: Object.entries(headers), body: bytes };
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
