/**
 * Sim clock: virtual time for a cluster. Events at one instant run in the order in which they were set.
 * Promises advance a few microtasks between two events of one instant, and as far as they can before
 * time advances. Each node has its own view of the clock, which can stop forever (a crash) or for a
 * while (a pause). While a machine sleeps, its monotonic clock stops too, and its wall clock does not.
 */
import type { Cancel, Clock } from "@redrive/core";
import { EventQueue, type SimEvent } from "./event-queue.ts";

/**
 * Between two events of one instant: enough for a commit's result to reach the engine. Longer chains
 * continue after later events, as if the store's responses had arrived one by one.
 */
const MICROTASKS_PER_EVENT = 6;

export class SimClock {
  readonly startAt: number;
  readonly #events = new EventQueue();
  #now: number;
  /** Number of events run so far. */
  steps = 0;

  constructor(startAt: number) {
    this.startAt = startAt;
    this.#now = startAt;
  }

  now(): number {
    return this.#now;
  }

  set(ms: number, fn: () => void): Cancel {
    const afterMs = this.#now - this.startAt + Math.max(0, Math.ceil(ms));
    const event: SimEvent = { fn };
    this.#events.push(afterMs, event);
    return () => {
      event.fn = undefined;
    };
  }

  /** Runs events until `endAt`, or until `isDone`. */
  async runUntil(endAt: number, isDone: () => boolean = () => false): Promise<void> {
    const endMs = endAt - this.startAt;
    for (;;) {
      const ms = this.#events.nextMs();
      if (ms > endMs || isDone()) break;
      const { fn } = this.#events.pop();
      if (fn === undefined) continue;
      this.#now = this.startAt + ms;
      this.steps++;
      fn();
      if (this.#events.nextMs() !== ms) await allMicrotasks();
      else for (let n = 0; n < MICROTASKS_PER_EVENT; n++) await undefined;
    }
    if (!isDone()) this.#now = Math.max(this.#now, endAt);
  }
}

/** Node runs a tick only when no microtask is left. It costs less than ten microtasks. */
function allMicrotasks(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** What is wrong with the clocks of a machine. */
export interface ClockErrors {
  /** How far its wall clock is ahead of the store's; negative: behind. */
  readonly skewMs: number;
  /** How much faster its clocks run, as a share. */
  readonly drift: number;
}

export const EXACT: ClockErrors = { skewMs: 0, drift: 0 };

/** A shorter rest of a wait is a rounding error. */
const MIN_WAIT_MS = 1e-6;

/** One node's view of the clock. */
export class NodeClock implements Clock {
  readonly #clock: SimClock;
  readonly #errors: ClockErrors;
  #stepMs = 0;
  #isDead = false;
  #frozenUntil = 0;
  #isAsleep = false;
  #sleptMs = 0;

  constructor(clock: SimClock, errors: ClockErrors = EXACT) {
    this.#clock = clock;
    this.#errors = errors;
  }

  /** The wall clock. */
  now(): number {
    const { skewMs, drift } = this.#errors;
    const elapsedMs = this.#clock.now() - this.#clock.startAt;
    return this.#clock.now() + skewMs + Math.floor(elapsedMs * drift) + this.#stepMs;
  }

  monotonicMs(): number {
    const elapsedMs = this.#clock.now() - this.#clock.startAt;
    return (elapsedMs - this.#sleptMs + this.#sleepLeftMs()) * (1 + this.#errors.drift);
  }

  /** Somebody sets the wall clock. */
  step(ms: number): void {
    this.#stepMs += ms;
  }

  /** Total duration of the sleeps that have ended. */
  sleptMs(): number {
    return this.#sleptMs - this.#sleepLeftMs();
  }

  #sleepLeftMs(): number {
    return this.#isAsleep ? Math.max(0, this.#frozenUntil - this.#clock.now()) : 0;
  }

  alarm(ms: number, fn: () => void): Cancel {
    const rate = 1 + this.#errors.drift;
    const dueMs = this.monotonicMs() + Math.ceil(ms);
    let cancel = () => {};
    // Alarms of a paused node run after the pause. Those of a machine that slept run later.
    const run = (): void => {
      if (this.#isDead) return;
      const frozenMs = this.#frozenUntil - this.#clock.now();
      const leftMs = frozenMs > 0 ? frozenMs : (dueMs - this.monotonicMs()) / rate;
      if (leftMs > MIN_WAIT_MS) cancel = this.#clock.set(leftMs, run);
      else fn();
    };
    cancel = this.#clock.set(ms / rate, run);
    return () => cancel();
  }

  endOfTurn(fn: () => void): void {
    this.alarm(0, fn);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.alarm(ms, resolve));
  }

  isFrozen(): boolean {
    return this.#frozenUntil > this.#clock.now();
  }

  isDead(): boolean {
    return this.#isDead;
  }

  freeze(ms: number): void {
    this.#sleptMs -= this.#sleepLeftMs();
    this.#isAsleep = false;
    this.#frozenUntil = this.#clock.now() + ms;
  }

  /** The machine sleeps: as a pause, but the monotonic clock stops too. */
  suspend(ms: number): void {
    this.freeze(ms);
    this.#isAsleep = true;
    this.#sleptMs += ms;
  }

  kill(): void {
    this.#isDead = true;
  }
}
