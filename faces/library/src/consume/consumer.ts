/**
 * Consumer: answers each message with a disposition. It runs the handler through the destination's
 * guards, skips ids that were handled before, and bounds how many handlers run. It knows no broker:
 * adapters receive messages and carry dispositions out.
 */
import { type Clock, type Policy, type Random, RedriveError } from "@redrive/core";
import { notify } from "../call/call-event.ts";
import type { Classify } from "../call/options.ts";
import type { Destination } from "../destination/destination.ts";
import type { ConsumeEvent, ConsumeEventDetails } from "./consume-event.ts";
import { Dispositions } from "./dispositions.ts";
import type { Duplicates } from "./duplicates.ts";
import { HandlerRuns } from "./handler-runs.ts";
import type { Disposition, Message, MessageHandler } from "./message.ts";
import { adoptLost, freshState, type MessageState } from "./message-state.ts";
import { Slots } from "./slots.ts";

export interface ConsumerParts<Body> {
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
  readonly maxLost: number;
  readonly idempotent: boolean;
  readonly classify: Classify<unknown> | undefined;
  readonly describeError: (error: unknown) => string;
  readonly onEvent: ((event: ConsumeEvent) => void) | undefined;
}

/** Messages that may wait for a slot. Adapters receive no more than there are slots. */
export const MAX_WAITING = 10_000;

/** What adapters use. `consume` creates it. */
export class Consumer<Body = unknown> {
  readonly #parts: ConsumerParts<Body>;
  readonly #dispositions: Dispositions;
  readonly #slots: Slots;
  readonly #runs: HandlerRuns<Body>;

  // Mutable state.
  #isSuspectRunning = false;
  #isStopping = false;
  readonly #onIdle: (() => void)[] = [];

  constructor(parts: ConsumerParts<Body>) {
    this.#parts = parts;
    this.#slots = new Slots(parts.concurrency);
    const emit = (event: ConsumeEventDetails) => this.emit(event);
    this.#dispositions = dispositionsFor(parts, emit);
    // Not `...parts`: an object that is made by a spread has another shape in each consumer, and the
    // engine then compiles everything that reads it again.
    this.#runs = new HandlerRuns({
      handler: parts.handler,
      destination: parts.destination,
      clock: parts.clock,
      maxHoldMs: parts.maxHoldMs,
      idempotent: parts.idempotent,
      classify: parts.classify,
      dispositions: this.#dispositions,
      emit: parts.onEvent && emit,
      onOverdue: (running) => this.#slots.addOverdue(running),
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

  /** The longest time from the start of `handle` to its disposition, if the store responds. */
  get maxHandleMs(): number {
    return this.#parts.maxHoldMs + this.policy.attemptTimeoutMs;
  }

  /** Messages that can start now. */
  get free(): number {
    return this.#isStopping ? 0 : Math.max(0, this.#slots.free - this.#slots.waiting);
  }

  /** Messages that have no disposition yet. */
  get active(): number {
    return this.#slots.taken + this.#slots.waiting;
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
    if (this.#slots.waiting >= MAX_WAITING) {
      return Promise.resolve(this.#dispositions.defer(message, state, "overload"));
    }
    const isLost = state.lost > known.lost;
    const turn = this.#slots.take();
    if (turn === undefined) return this.#handleNow(message, state, isLost, now);
    return turn.then(() => this.#handleNow(message, state, isLost, this.#parts.clock.now()));
  }

  /**
   * Starts no more handlers, and resolves when every message has its disposition. Attempts that still
   * run after `drainMs` are aborted, and their messages are deferred. Safe to call twice.
   */
  async stop(drainMs = 30_000): Promise<void> {
    this.#isStopping = true;
    if (this.active === 0) return;
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
  #handleNow(
    message: Message<Body>,
    state: MessageState,
    isLost: boolean,
    now: number,
  ): Promise<Disposition> {
    const early = this.#early(message, state, isLost, now);
    if (early !== undefined) {
      this.#release();
      return Promise.resolve(early);
    }
    const isSuspect = state.lost > 0 && state.lost >= this.#parts.maxLost - 1;
    // Most messages: `finally` would need two more promises.
    if (!isSuspect && this.#parts.duplicates === undefined) {
      return this.#runs.run(message, state, this.#release);
    }
    const handled = isSuspect
      ? this.#handleSuspect(message, state)
      : this.#handleOnce(message, state);
    return handled.finally(this.#release);
  }

  readonly #release = (): void => {
    this.#slots.release();
    if (this.active === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  };

  #early(
    message: Message<Body>,
    state: MessageState,
    isLost: boolean,
    now: number,
  ): Disposition | undefined {
    if (this.#isStopping) return this.#dispositions.defer(message, state, "stop");
    return isLost
      ? this.#dispositions.afterLoss(message, state)
      : this.#dispositions.beforeAttempt(message, state, now);
  }

  /** Messages that may have crashed a consumer run one at a time, beside the others. */
  async #handleSuspect(message: Message<Body>, state: MessageState): Promise<Disposition> {
    if (this.#isSuspectRunning) return this.#dispositions.defer(message, state, "suspect");
    this.#isSuspectRunning = true;
    try {
      return await this.#handleOnce(message, state);
    } finally {
      this.#isSuspectRunning = false;
    }
  }

  /** Runs the handler, unless the id was handled before. */
  #handleOnce(message: Message<Body>, state: MessageState): Promise<Disposition> {
    const { duplicates } = this.#parts;
    if (duplicates === undefined) return this.#runs.run(message, state);
    return this.#handleNew(duplicates, message, state);
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
    if (claim === undefined) return this.#dispositions.defer(message, state, "store");
    if (claim.kind === "running") {
      return this.#dispositions.defer(message, state, "in-progress");
    }
    if (claim.kind === "done") {
      this.emit({ type: "duplicate", id });
      return { kind: "ack", isDuplicate: true };
    }
    const disposition = await this.#runs.run(message, state);
    const isDone = disposition.kind === "ack";
    // The handler has run, so the disposition stands even if the store fails now.
    await (isDone ? claim.complete() : claim.release()).catch((error: unknown) => {
      this.emit({ type: "store-failed", id, error });
    });
    return disposition;
  }
}

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
    maxLost: parts.maxLost,
    idempotent: parts.idempotent,
    describeError: parts.describeError,
    emit,
  });
}
