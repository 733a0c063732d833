/**
 * Intake: how many handlers a consumer runs at once, and when it pauses. While nothing could be handled (a
 * guard holds all attempts, the store of the ids fails, or the program has an error) it is *shut*: no handler
 * starts, and adapters fetch nothing, so that the queue keeps its messages. Then it *probes*: one message at a
 * time, until one is handled.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { ConsumeEventDetails } from "./message.ts";

/** Why the intake is shut. Only a handler that ends as it should ends `errors`. */
export type ShutReason = "guard" | "store" | "errors";

/** A failed retry adds one, a successful one takes one away, within these limits. */
const MAX_RETRY_SCORE = 64;

/** A message in line for a slot. */
interface Waiting {
  readonly start: (isStarting: boolean) => void;
  cancel: Cancel;
}

/**
 * Retries that mostly fail take at most half of the slots, so that however many messages fail, the others
 * are handled. Retries that succeed, as after an outage, may take all of them.
 *
 * A handler that runs on after its timeout gives its slot to others, so that a few of them do not stop the
 * consumer. As many handlers as there are slots may do so; then the next message waits.
 */
export class Intake {
  readonly count: number;
  readonly #clock: Clock;
  readonly #maxWaitMs: number;

  // Mutable state.
  /** Handlers that may run at once now: all slots, one, or none. */
  #limit: number;
  /** Handlers whose message is not answered yet. */
  #taken = 0;
  /** Handlers that still run after their timeout. */
  #overdue = 0;
  /** Those of them whose message is not answered. It is among the taken, but others may have its slot. */
  #lent = 0;
  readonly #line: Waiting[] = [];
  readonly #listeners = new Set<() => void>();
  #shutBy: ShutReason | undefined;
  #probeAt = 0;
  /** How often it was shut in a row without an end in sight. */
  #shuts = 0;
  #cancelProbe: Cancel = () => undefined;
  /** Retries that have a slot or wait for one. */
  #retries = 0;
  #retryScore = 0;
  #areRetriesFailing = false;

  /** `maxWaitMs`: how long a message waits in line while the intake is shut or probes. */
  constructor(count: number, clock: Clock, maxWaitMs: number) {
    this.count = count;
    this.#limit = count;
    this.#clock = clock;
    this.#maxWaitMs = maxWaitMs;
  }

  get taken(): number {
    return this.#taken;
  }

  get overdue(): number {
    return this.#overdue;
  }

  get lent(): number {
    return this.#lent;
  }

  get waiting(): number {
    return this.#line.length;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Undefined: it is open. */
  get shutBy(): ShutReason | undefined {
    return this.#shutBy;
  }

  /** When the next probe may start; epoch ms. */
  get probeAt(): number {
    return this.#probeAt;
  }

  /** Slots that a message can have at once. */
  get free(): number {
    if (this.#overdue >= this.count) return 0;
    return Math.max(0, this.#limit - (this.#taken - this.#lent));
  }

  /** Retries that may take a slot now, as far as other retries are concerned. */
  get roomForRetries(): number {
    const limit = this.#isScoreHigh ? Math.max(1, this.count >> 1) : this.count;
    return Math.max(0, limit - this.#retries);
  }

  /** Most retries fail. */
  get #isScoreHigh(): boolean {
    return this.#retryScore * 2 > MAX_RETRY_SCORE;
  }

  /** Most retries have failed, and not yet as many have succeeded: adapters must not switch too often. */
  get areRetriesFailing(): boolean {
    return this.#areRetriesFailing;
  }

  beginRetry(): void {
    this.#retries++;
  }

  endRetry(): void {
    this.#retries--;
  }

  /** The handler of a retry ran. */
  recordRetry(hasFailed: boolean): void {
    const score = this.#retryScore + (hasFailed ? 1 : -1);
    this.#retryScore = Math.min(MAX_RETRY_SCORE, Math.max(0, score));
    const wereFailing = this.#areRetriesFailing;
    this.#areRetriesFailing = wereFailing ? score > 0 : this.#isScoreHigh;
    if (wereFailing !== this.#areRetriesFailing) this.#changed();
  }

  /** Calls `listener` when the limit, or what has a slot without an end, has changed. Returns a function that ends this. */
  onLimit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Undefined: the slot is taken. Otherwise it is taken if the promise resolves to true; false: the
   * intake was shut for longer than a message waits.
   */
  take(): Promise<boolean> | undefined {
    if (this.free > 0) {
      this.#taken++;
      return undefined;
    }
    return new Promise((start) => {
      const waiting: Waiting = { start, cancel: () => undefined };
      this.#line.push(waiting);
      if (this.#shutBy !== undefined) this.#limitWait(waiting);
    });
  }

  #limitWait(waiting: Waiting): void {
    waiting.cancel();
    waiting.cancel = this.#clock.alarm(this.#maxWaitMs, () => {
      // Behind handlers that run, a message waits for as long as it takes.
      if (this.#shutBy === undefined) return;
      this.#line.splice(this.#line.indexOf(waiting), 1);
      waiting.start(false);
    });
  }

  release(): void {
    this.#taken--;
    if (this.#line.length > 0) this.#wake();
  }

  /** A handler runs on after its timeout, until `ended` settles. */
  addOverdue(ended: Promise<unknown>): void {
    this.#overdue++;
    const end = () => {
      this.#overdue--;
      this.#changed();
    };
    ended.then(end, end);
  }

  /** Others may have the slot of a message that is not answered before its overdue handler ends. */
  lend(): void {
    this.#lent++;
    this.#changed();
  }

  /** That message is about to be answered. `release` follows. */
  takeBack(): void {
    this.#lent--;
  }

  #changed(): void {
    this.#wake();
    for (const listener of this.#listeners) listener();
  }

  #wake(): void {
    while (this.free > 0 && this.#line.length > 0) {
      const next = this.#line.shift();
      next?.cancel();
      this.#taken++;
      next?.start(true);
    }
  }

  /** Starts no handlers before `until`, then one at a time. A reason `errors` stays until `open`. */
  shut(by: ShutReason, until: number): void {
    const now = this.#clock.now();
    const wasOpen = this.#shutBy === undefined;
    const isShut = this.#limit === 0;
    this.#shutBy = this.#shutBy === "errors" ? "errors" : by;
    this.#probeAt = isShut ? Math.max(this.#probeAt, until) : until;
    this.#cancelProbe();
    this.#cancelProbe = this.#clock.alarm(this.#probeAt - now, () => this.#setLimit(1), true);
    if (wasOpen) for (const waiting of this.#line) this.#limitWait(waiting);
    this.#setLimit(0);
  }

  /** As `shut`, when nobody knows until when: longer each time, up to `maxMs`. */
  shutFor(by: ShutReason, firstMs: number, maxMs: number): void {
    const waitMs = Math.min(maxMs, firstMs * (1 << Math.min(this.#shuts, 20)));
    if (this.#limit > 0) this.#shuts++;
    this.shut(by, this.#clock.now() + waitMs);
  }

  /** Messages are handled as usual. */
  open(): void {
    this.#shutBy = undefined;
    this.#shuts = 0;
    this.#cancelProbe();
    this.#setLimit(this.count);
  }

  #setLimit(limit: number): void {
    if (limit === this.#limit) return;
    this.#limit = limit;
    this.#changed();
  }
}

export interface PauseOptions {
  /** The latest messages that ended, which are counted. 2 to 1,000. Default: 20. */
  readonly window?: number | undefined;
  /** With fewer errors among them, the consumer does not pause. 1 to `window`. Default: half of it. */
  readonly minErrors?: number | undefined;
  /** It pauses if more than this share of them ended with errors. 0.1 to 0.99. Default: 0.5. */
  readonly share?: number | undefined;
  /** The wait before the first probe; doubled after each that fails. 100 ms to 1 h. Default: 5,000. */
  readonly probeMs?: number | undefined;
  /** The longest wait before a probe. `probeMs` to 24 h. Default: 300,000. */
  readonly maxProbeMs?: number | undefined;
}

/** The options with their defaults. */
export type ResolvedPauseOptions = { readonly [field in keyof PauseOptions]-?: number };

interface PauseParts {
  readonly clock: Clock;
  readonly intake: Intake;
  readonly emit: (details: ConsumeEventDetails) => void;
}

/** A message that ended so often with an error, while nobody knew, is taken for the cause. */
const MAX_UNKNOWN = 2;

/**
 * Tells an error of the program (a bad deployment: every message ends with a `TypeError`) from an error of a
 * message. An error that follows a success is the message's own. After other errors nobody knows, so the message
 * waits. When most of the latest messages ended with errors of the program, the consumer pauses, and the
 * messages stay in their queue.
 */
export class Pause {
  readonly #options: ResolvedPauseOptions;
  readonly #parts: PauseParts;
  /** The latest ends, as a ring: 1 for an error of the program. */
  readonly #ends: Uint8Array;

  // Mutable state.
  #at = 0;
  #count = 0;
  #errors = 0;
  /** The end before this one was no such error. */
  #isTrusted = false;
  #pausedAt = 0;

  constructor(options: ResolvedPauseOptions, parts: PauseParts) {
    this.#options = options;
    this.#parts = parts;
    this.#ends = new Uint8Array(options.window);
  }

  /** A message was handled, or became a dead letter for another reason. */
  recordOther(): void {
    this.#isTrusted = true;
    this.#record(0);
  }

  /**
   * A message ended with an error of the program, as it did `earlier` times while nobody knew. Undefined:
   * the message has caused it. Otherwise the message waits, and has ended so this many times.
   */
  recordError(error: unknown, earlier: number): number | undefined {
    const { intake } = this.#parts;
    const wasTrusted = this.#isTrusted;
    this.#isTrusted = false;
    this.#record(1);
    if (intake.shutBy === "errors") {
      if (intake.limit > 0) this.#shut();
      return earlier;
    }
    if (this.#isMost()) {
      this.#pause(error);
      return earlier;
    }
    return wasTrusted || earlier >= MAX_UNKNOWN ? undefined : earlier + 1;
  }

  #record(end: 0 | 1): void {
    const { window } = this.#options;
    if (this.#count === window) this.#errors -= this.#ends[this.#at] ?? 0;
    else this.#count++;
    this.#ends[this.#at] = end;
    this.#errors += end;
    this.#at = this.#at + 1 === window ? 0 : this.#at + 1;
  }

  #isMost(): boolean {
    const { minErrors, share } = this.#options;
    return this.#errors >= minErrors && this.#errors > share * this.#count;
  }

  #pause(error: unknown): void {
    const { clock, emit, intake } = this.#parts;
    const [errors, ends] = [this.#errors, this.#count];
    this.#pausedAt = clock.now();
    this.#shut();
    emit({ type: "paused", errors, ends, error, probeAt: intake.probeAt });
  }

  #shut(): void {
    const { probeMs, maxProbeMs } = this.#options;
    this.#parts.intake.shutFor("errors", probeMs, maxProbeMs);
  }

  /** A probe has succeeded. What was counted before says nothing about the messages from now on. */
  resume(): void {
    const { clock, emit } = this.#parts;
    this.#at = 0;
    this.#count = 0;
    this.#errors = 0;
    emit({ type: "resumed", pausedMs: clock.now() - this.#pausedAt });
  }
}
