/**
 * Consumer: answers each message with a disposition. It runs the handler through the destination's
 * guards, skips ids that were handled before, and bounds how many handlers run. It knows no broker:
 * adapters receive messages and carry dispositions out.
 */
import {
  type Cancel,
  type Clock,
  type Policy,
  type Random,
  RedriveError,
  systemId,
} from "@redrive/core";
import type { CallEvent } from "../call/call-event.ts";
import { notify } from "../call/call-event.ts";
import type { AttemptContext, Classify, RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import type { Destination } from "../destination/destination.ts";
import type { IdempotencyStore } from "../idempotency/idempotency-store.ts";
import { sha256 } from "../idempotency/sha256.ts";
import { Dispositions, HandlerRuns } from "./handler-runs.ts";
import { Intake, Pause, type ResolvedPauseOptions, type ShutReason } from "./intake.ts";
import {
  adoptLost,
  type ConsumeEvent,
  type ConsumeEventDetails,
  type Defer,
  type DeferReason,
  type Disposition,
  freshState,
  isRetry,
  type Message,
  type MessageHandler,
  type MessageState,
} from "./message.ts";

interface ConsumerParts<Body> {
  readonly name: string;
  readonly handler: MessageHandler<Body>;
  readonly destination: Destination;
  readonly clock: Clock;
  readonly random: Random;
  readonly duplicates: Duplicates | undefined;
  readonly concurrency: number;
  readonly minDelayMs: number;
  readonly maxHoldMs: number;
  readonly deferMs: number;
  readonly maxDeferMs: number;
  readonly maxLost: number;
  readonly idempotent: boolean;
  /** Undefined: it never pauses. */
  readonly pause: ResolvedPauseOptions | undefined;
  readonly classify: Classify<unknown> | undefined;
  readonly describeError: (error: unknown) => string;
  readonly onEvent: ((event: ConsumeEvent) => void) | undefined;
}

/** Messages that may wait for a slot. Adapters receive no more than there are slots. */
const MAX_WAITING = 10_000;

/** While the store of the ids fails, it is asked again after this time at the latest. */
const MAX_STORE_WAIT_MS = 60_000;

/** What adapters use. `consume` creates it. */
export class Consumer<Body = unknown> {
  readonly #parts: ConsumerParts<Body>;
  readonly #dispositions: Dispositions;
  readonly #intake: Intake;
  readonly #runs: HandlerRuns<Body>;

  // Mutable state.
  #isSuspectRunning = false;
  #isStopping = false;
  readonly #onIdle: (() => void)[] = [];

  constructor(parts: ConsumerParts<Body>) {
    const { clock, pause, onEvent } = parts;
    this.#parts = parts;
    const intake = new Intake(parts.concurrency, clock, parts.maxHoldMs);
    this.#intake = intake;
    const emit = (event: ConsumeEventDetails) => this.emit(event);
    this.#dispositions = dispositionsFor(parts, emit);
    // Not `...parts`: an object that is made by a spread has another shape in each consumer, and the
    // engine then compiles everything that reads it again.
    this.#runs = new HandlerRuns({
      handler: parts.handler,
      destination: parts.destination,
      clock,
      intake,
      maxHoldMs: parts.maxHoldMs,
      deferMs: parts.deferMs,
      idempotent: parts.idempotent,
      classify: parts.classify,
      dispositions: this.#dispositions,
      pause: pause && new Pause(pause, { clock, intake, emit }),
      emit: onEvent && emit,
    });
  }

  get name(): string {
    return this.#parts.name;
  }

  get clock(): Clock {
    return this.#parts.clock;
  }

  get random(): Random {
    return this.#parts.random;
  }

  get policy(): Policy {
    return this.#parts.destination.policy;
  }

  /** The shortest wait of a disposition. */
  get minDelayMs(): number {
    return this.#parts.minDelayMs;
  }

  /** Handlers that may run at once. */
  get concurrency(): number {
    return this.#parts.concurrency;
  }

  /** Handlers that may run at once now: fewer than `concurrency` while nothing could be handled. */
  get limit(): number {
    return this.#isStopping ? 0 : this.#intake.limit;
  }

  /** Messages that can start now. */
  get free(): number {
    return this.#isStopping ? 0 : Math.max(0, this.#intake.free - this.#intake.waiting);
  }

  /** Messages that are no first attempts and can start now. Others would be deferred. */
  get freeForRetries(): number {
    return Math.min(this.free, this.#intake.roomForRetries);
  }

  /** Retries mostly fail, so many of them are deferred at once, without a slot. */
  get areRetriesFailing(): boolean {
    return this.#intake.areRetriesFailing;
  }

  /** Messages whose handlers run on after their timeout. Others may have their slots. */
  get overdue(): number {
    return this.#intake.lent;
  }

  /** Messages that wait for a slot. */
  get waiting(): number {
    return this.#intake.waiting;
  }

  /** Messages that have no disposition yet. */
  get active(): number {
    return this.#intake.taken + this.#intake.waiting;
  }

  /**
   * Calls `listener` when `limit`, `overdue` or `areRetriesFailing` has changed, so that a loop that found no free slot looks
   * again. Returns a function that ends this.
   */
  onLimit(listener: () => void): () => void {
    return this.#intake.onLimit(listener);
  }

  emit(details: ConsumeEventDetails): void {
    const { onEvent, clock, name } = this.#parts;
    if (onEvent === undefined) return;
    notify(onEvent, { at: clock.now(), consumer: name, ...details } as ConsumeEvent);
  }

  /** Handles one message. Never rejects. */
  handle(message: Message<Body>): Promise<Disposition> {
    const now = this.#parts.clock.now();
    const { deliveries = 1, state: known = freshState(now) } = message;
    const state = adoptLost(known, deliveries - 1, now);
    if (this.#isStopping) return Promise.resolve(this.#deferStop(message, state));
    if (this.#intake.waiting >= MAX_WAITING) {
      return Promise.resolve(this.#dispositions.defer(message, state, "overload"));
    }
    if (state.lost > 0) return this.#handleSuspect(message, state, state.lost > known.lost, now);
    if (isRetry(message, state)) return this.#handleRetry(message, state, now);
    return this.#handleInTurn(message, state, now);
  }

  /** A retry that waited in line would keep others from being received. */
  #handleRetry(message: Message<Body>, state: MessageState, now: number): Promise<Disposition> {
    if (this.#intake.roomForRetries === 0) {
      return Promise.resolve(this.#dispositions.defer(message, state, "retries"));
    }
    this.#intake.beginRetry();
    return this.#handleInTurn(message, state, now).finally(() => this.#intake.endRetry());
  }

  #handleInTurn(message: Message<Body>, state: MessageState, now: number): Promise<Disposition> {
    const turn = this.#intake.take();
    if (turn === undefined) return this.#handleNow(message, state, now);
    return turn.then((isStarting) =>
      isStarting
        ? this.#handleNow(message, state, this.#parts.clock.now())
        : this.#deferShut(message, state),
    );
  }

  /** An earlier delivery was lost. A suspect never waits in this process. */
  #handleSuspect(
    message: Message<Body>,
    state: MessageState,
    isLost: boolean,
    now: number,
  ): Promise<Disposition> {
    const early = isLost
      ? this.#dispositions.afterLoss(message, state, message.isImmediate)
      : undefined;
    if (early !== undefined) return Promise.resolve(early);
    if (this.#intake.free > 0) {
      void this.#intake.take();
      return this.#handleNow(message, state, now);
    }
    return Promise.resolve(this.#dispositions.defer(message, state, "suspect"));
  }

  /** The message has waited for as long as it may. */
  #deferShut(message: Message<Body>, state: MessageState): Defer {
    const { shutBy = "guard", probeAt } = this.#intake;
    const disposition = this.#dispositions.defer(message, state, SHUT_BY[shutBy], {
      until: probeAt,
    });
    this.#reportIdle();
    return disposition;
  }

  /**
   * Starts no more handlers, and resolves when every message has its disposition, and the store has the ids
   * of those that were handled. Attempts that still run after `drainMs` are aborted, and their messages are
   * deferred. Safe to call twice.
   */
  async stop(drainMs = 30_000): Promise<void> {
    const { clock, duplicates } = this.#parts;
    const untilMs = clock.monotonicMs() + drainMs;
    this.#isStopping = true;
    // Messages in line get their disposition now.
    this.#intake.open();
    if (this.active > 0) await this.#drain(drainMs);
    await duplicates?.drain(Math.max(0, untilMs - clock.monotonicMs()));
  }

  async #drain(drainMs: number): Promise<void> {
    const idle = new Promise<void>((resolve) => this.#onIdle.push(resolve));
    const cancel = this.#parts.clock.alarm(drainMs, () => this.#abortAll());
    await idle;
    cancel();
  }

  #abortAll(): void {
    const reason = new RedriveError("CONSUMER_STOPPED", `consumer ${this.name} has stopped`);
    this.#runs.abortAll(reason);
  }

  /** The message has a slot, which is free again when it has its disposition. */
  #handleNow(message: Message<Body>, state: MessageState, now: number): Promise<Disposition> {
    const early = this.#isStopping
      ? this.#deferStop(message, state)
      : this.#dispositions.beforeAttempt(message, state, now);
    if (early !== undefined) {
      this.#release();
      return Promise.resolve(early);
    }
    // Most messages: `finally` would need two more promises.
    if (state.lost === 0 && this.#parts.duplicates === undefined) {
      return this.#runs.run(message, state, this.#release);
    }
    return this.#handleOnce(message, state).finally(this.#release);
  }

  #deferStop(message: Message<Body>, state: MessageState): Defer {
    return this.#dispositions.deferBy(message, state, "stop", this.#parts.deferMs / 2);
  }

  readonly #release = (): void => {
    this.#intake.release();
    this.#reportIdle();
  };

  #reportIdle(): void {
    if (this.active === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Runs the handler, unless the id was handled before. */
  #handleOnce(message: Message<Body>, state: MessageState): Promise<Disposition> {
    const { duplicates } = this.#parts;
    if (duplicates === undefined) return this.#run(message, state);
    return this.#handleNew(duplicates, message, state);
  }

  /** Messages that may have crashed a consumer run one at a time, beside the others. */
  async #run(message: Message<Body>, state: MessageState): Promise<Disposition> {
    const isSuspect = state.lost > 0 && state.lost >= this.#parts.maxLost - 1;
    if (!isSuspect) return await this.#runs.run(message, state);
    if (this.#isSuspectRunning) return this.#dispositions.defer(message, state, "suspect");
    this.#isSuspectRunning = true;
    try {
      return await this.#runs.run(message, state);
    } finally {
      this.#isSuspectRunning = false;
    }
  }

  async #handleNew(
    duplicates: Duplicates,
    message: Message<Body>,
    state: MessageState,
  ): Promise<Disposition> {
    const { id } = message;
    const claim = await duplicates.begin(id).catch((error: unknown) => {
      this.emit({ type: "store-failed", id, error });
    });
    if (claim === undefined) return this.#deferWithoutStore(message, state);
    if (this.#intake.shutBy === "store" && this.#intake.limit > 0) this.#intake.open();
    if (claim.kind === "running") {
      return this.#dispositions.defer(message, state, "in-progress");
    }
    if (claim.kind === "done") {
      this.emit({ type: "duplicate", id });
      return { kind: "ack", isDuplicate: true };
    }
    const onFailed = (error: unknown) => this.emit({ type: "store-failed", id, error });
    const stopRenewing = duplicates.keepClaim(claim, onFailed);
    const disposition = await this.#runClaimed(message, state, claim.takeovers);
    // The handler has run, so the disposition stands even if the store fails now.
    if (disposition.kind === "ack") await duplicates.record(claim, stopRenewing, onFailed);
    else {
      stopRenewing();
      await claim.release().catch(onFailed);
    }
    return disposition;
  }

  /**
   * The queue keeps its messages while the store fails: otherwise all of them would be received and
   * deferred, again and again.
   */
  #deferWithoutStore(message: Message<Body>, state: MessageState): Defer {
    const { deferMs } = this.#parts;
    this.#intake.shutFor("store", deferMs, MAX_STORE_WAIT_MS);
    return this.#dispositions.defer(message, state, "store", { until: this.#intake.probeAt });
  }

  /** `takeovers`: claims of the id whose process ended before it had a result. */
  async #runClaimed(
    message: Message<Body>,
    known: MessageState,
    takeovers: number,
  ): Promise<Disposition> {
    const isLost = takeovers > known.lost;
    if (!isLost) return await this.#run(message, known);
    const state = adoptLost(known, takeovers - known.lost, this.#parts.clock.now());
    return this.#dispositions.afterLoss(message, state) ?? (await this.#run(message, state));
  }
}

type Claimed = Extract<IdClaim, { kind: "claimed" }>;

const SHUT_BY: Readonly<Record<ShutReason, DeferReason>> = {
  guard: "guard",
  store: "store",
  errors: "paused",
};

function dispositionsFor<Body>(
  parts: ConsumerParts<Body>,
  emit: (event: ConsumeEventDetails) => void,
): Dispositions {
  return new Dispositions({
    policy: parts.destination.policy,
    clock: parts.clock,
    random: parts.random,
    minDelayMs: parts.minDelayMs,
    deferMs: parts.deferMs,
    maxDeferMs: parts.maxDeferMs,
    maxLost: parts.maxLost,
    idempotent: parts.idempotent,
    describeError: parts.describeError,
    emit,
  });
}

/** Whether a message may be handled. */
type IdClaim =
  /** It was handled before. */
  | { readonly kind: "done" }
  /** Another delivery of it is being handled. */
  | { readonly kind: "running" }
  /** It may be handled now. The caller must record or release it. */
  | {
      readonly kind: "claimed";
      readonly key: string;
      /** How many claims in a row ended with their lease: their process died, or stood still. */
      readonly takeovers: number;
      /** Starts the lease anew. False: another process has taken the claim over. */
      renew(): Promise<boolean>;
      /** Records that it was handled. */
      complete(): Promise<unknown>;
      /** It was not handled: another delivery may be. */
      release(): Promise<unknown>;
    };

interface DuplicatesParts {
  readonly store: IdempotencyStore;
  readonly clock: Clock;
  /** Separates the ids of consumers that share a store. */
  readonly scope: string;
  /** Longer than an attempt may take. It is renewed while a handler runs on. */
  readonly leaseMs: number;
  readonly retentionMs: number;
  readonly newOwner?: () => string;
}

/** All deliveries of an id stand for the same message. */
const FINGERPRINT = "message";

const NO_RESULT = new Uint8Array(0);

/** Keys that every store can keep. */
const STORABLE = /^[\x20-\x7e]{1,256}$/;

/** How long a message waits for the store. The store may never answer. */
const STORE_TIMEOUT_MS = 5000;

const ONCE = {
  maxAttempts: 1,
  attemptTimeoutMs: STORE_TIMEOUT_MS,
  totalBudgetMs: STORE_TIMEOUT_MS,
  nested: "retry",
} as const;

/** For a record that the store does not take. As long as a request with a key waits by default. */
const RECORD_POLICY: RetryOptions<unknown> = {
  maxAttempts: 1000,
  initialDelayMs: 200,
  maxDelayMs: 2000,
  attemptTimeoutMs: STORE_TIMEOUT_MS,
  totalBudgetMs: 900_000,
  nested: "retry",
  rejectWith: "last-error",
  // What looks like a mistake, such as a table that is missing, may be corrected meanwhile.
  classify: (result) => ("error" in result ? "transient" : undefined),
};

/**
 * Recognizes messages whose id was handled before. The id is claimed before the handler runs and settled after
 * it, so that a crash in between neither loses the message nor blocks its id for longer than the lease.
 */
export class Duplicates {
  readonly #parts: DuplicatesParts;
  /** Handled ids that the store does not have yet, and their claims. */
  readonly #unrecorded = new Map<string, Promise<void>>();
  readonly #end = new AbortController();

  constructor(parts: DuplicatesParts) {
    this.#parts = parts;
  }

  async begin(id: string): Promise<IdClaim> {
    const { store, scope, leaseMs, retentionMs, clock, newOwner = systemId } = this.#parts;
    const plain = `${scope}/${id}`;
    const key = STORABLE.test(plain) ? plain : `${scope}/sha256/${await sha256([id])}`;
    if (this.#unrecorded.has(key)) return { kind: "done" };
    const owner = newOwner();
    const claiming = store.claim(key, { fingerprint: FINGERPRINT, owner, leaseMs, retentionMs });
    const found = await retry(() => claiming, { ...ONCE, clock }).catch((error: unknown) => {
      // A claim that succeeds too late would keep the message away until its lease ends.
      claiming.then(() => store.release(key, owner)).catch(() => undefined);
      throw error;
    });
    if (found.kind === "settled") return { kind: "done" };
    if (found.kind === "running") return { kind: "running" };
    return {
      kind: "claimed",
      key,
      takeovers: found.takeovers,
      renew: () => store.renew(key, owner, leaseMs),
      complete: () => store.settle(key, owner, { result: NO_RESULT, retentionMs }),
      release: () => store.release(key, owner),
    };
  }

  /**
   * Renews the claim until the returned function is called: a handler that nothing could stop may run for
   * longer than its claim lasts. After a renewal that failed, the next one comes soon.
   */
  keepClaim(claim: Claimed, onFailed: (error: unknown) => void): Cancel {
    const { clock, leaseMs } = this.#parts;
    let isOver = false;
    let hasFailed = false;
    const renew = async () => {
      const failed = (error: unknown) => {
        // Once in a row.
        if (!hasFailed) onFailed(error);
        hasFailed = true;
        return undefined;
      };
      const isOwn = await retry(claim.renew, { ...ONCE, clock }).catch(failed);
      if (isOwn === false || isOver) return;
      hasFailed &&= isOwn === undefined;
      cancel = clock.alarm(leaseMs / (hasFailed ? 30 : 3), renew, true);
    };
    let cancel = clock.alarm(leaseMs / 3, renew, true);
    return () => {
      isOver = true;
      cancel();
    };
  }

  /**
   * Records that a message was handled. Resolves when the store has the record, or has failed once: then the
   * id is kept in memory, and its claim by `keepClaim`, until the store takes it.
   */
  async record(
    claim: Claimed,
    stopRenewing: Cancel,
    onFailed: (error: unknown) => void,
  ): Promise<void> {
    await new Promise<void>((resolve) => {
      let hasFailed = false;
      const onEvent = (event: CallEvent) => {
        if (event.type !== "attempt-failed" || hasFailed) return;
        hasFailed = true;
        onFailed(event.error);
        resolve();
      };
      // It reads the signal: a write may never be answered, and the next one may run beside it.
      const write = ({ signal }: AttemptContext) => {
        signal.throwIfAborted();
        return claim.complete();
      };
      const { clock } = this.#parts;
      const { signal } = this.#end;
      const recorded = retry(write, { ...RECORD_POLICY, clock, signal, onEvent })
        .then(() => undefined, onFailed)
        .finally(() => {
          stopRenewing();
          this.#unrecorded.delete(claim.key);
          resolve();
        });
      this.#unrecorded.set(claim.key, recorded);
    });
  }

  /** Waits until the store has every record. After `timeoutMs` it gives up. */
  async drain(timeoutMs: number): Promise<void> {
    if (this.#unrecorded.size === 0) return;
    const text = "the consumer has stopped before the store had recorded what it has handled";
    const reason = new RedriveError("CONSUMER_STOPPED", text);
    const cancel = this.#parts.clock.alarm(timeoutMs, () => this.#end.abort(reason));
    await Promise.all(this.#unrecorded.values());
    cancel();
  }
}
