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

  set(ms: number, run: () => void): void {
    this.schedule(ms, { run, isCanceled: false });
  }

  schedule(ms: number, event: SimEvent): void {
    this.#events.push(this.#now - this.startAt + Math.max(0, Math.ceil(ms)), event);
  }

  /**
   * Runs events until `endAt`, or until `isDone`. An async function that awaits each microtask costs
   * twice as much as this one, which asks for them.
   */
  runUntil(endAt: number, isDone: () => boolean = () => false): Promise<void> {
    return new Promise((resolve, reject) => {
      let microtasks = 0;
      const proceed = (): void => {
        if (microtasks > 0) {
          microtasks--;
          void RESOLVED.then(proceed);
          return;
        }
        try {
          if (!this.#runNext(endAt - this.startAt, isDone)) {
            if (!isDone()) this.#now = Math.max(this.#now, endAt);
            resolve();
            return;
          }
        } catch (error) {
          reject(error);
          return;
        }
        // Node runs a tick only when no microtask is left. It costs less than ten microtasks.
        if (this.#events.nextMs() !== this.#now - this.startAt) process.nextTick(enqueue);
        else {
          microtasks = MICROTASKS_PER_EVENT - 1;
          void RESOLVED.then(proceed);
        }
      };
      // Inside a tick, the next tick would come before the microtasks.
      const enqueue = () => void RESOLVED.then(proceed);
      proceed();
    });
  }

  /** Runs the next event that is not canceled. False: there is none until `endMs`, or it is done. */
  #runNext(endMs: number, isDone: () => boolean): boolean {
    for (;;) {
      const ms = this.#events.nextMs();
      if (ms > endMs || isDone()) return false;
      const event = this.#events.pop();
      if (event.isCanceled) continue;
      this.#now = this.startAt + ms;
      this.steps++;
      event.run();
      return true;
    }
  }
}

const RESOLVED = Promise.resolve();

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

/** An alarm of a node. A class: a seed sets thousands of them, and closures cost more. */
class NodeAlarm implements SimEvent {
  readonly #clock: NodeClock;
  /** On the monotonic clock of the node. */
  readonly dueMs: number;
  readonly fn: () => void;
  isCanceled = false;

  constructor(clock: NodeClock, dueMs: number, fn: () => void) {
    this.#clock = clock;
    this.dueMs = dueMs;
    this.fn = fn;
  }

  run(): void {
    this.#clock.ring(this);
  }
}

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
    const alarm = this.#alarm(ms, fn);
    return () => {
      alarm.isCanceled = true;
    };
  }

  #alarm(ms: number, fn: () => void): NodeAlarm {
    const alarm = new NodeAlarm(this, this.monotonicMs() + Math.ceil(ms), fn);
    this.#clock.schedule(ms / (1 + this.#errors.drift), alarm);
    return alarm;
  }

  /** Alarms of a paused node run after the pause. Those of a machine that slept run later. */
  ring(alarm: NodeAlarm): void {
    if (this.#isDead) return;
    const frozenMs = this.#frozenUntil - this.#clock.now();
    const untilDueMs = (alarm.dueMs - this.monotonicMs()) / (1 + this.#errors.drift);
    const leftMs = frozenMs > 0 ? frozenMs : untilDueMs;
    if (leftMs > MIN_WAIT_MS) this.#clock.schedule(leftMs, alarm);
    else alarm.fn();
  }

  endOfTurn(fn: () => void): void {
    this.#alarm(0, fn);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#alarm(ms, resolve));
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
