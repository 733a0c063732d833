/**
 * Sim clock: virtual time for a whole cluster. Events are kept in a heap, ties in the order in which
 * they were set, and between two events promises get a few turns. Each node sees it through a clock
 * of its own, which can be stopped for good (a crash) or for a while (a pause).
 */
import type { Cancel, Clock } from "@redrive/core";
import { createHeap } from "../../faces/service/src/collections/heap.ts";

interface SimEvent {
  readonly at: number;
  readonly sequence: number;
  fn: (() => void) | undefined;
}

/** Enough for a commit's answer to reach the engine; whatever takes more goes on later. */
const MICROTASKS_PER_EVENT = 6;
/** And so many more before time goes on: a boot asks the store one thing after the other. */
const MICROTASKS_PER_INSTANT = 30;

export class SimClock {
  readonly startAt: number;
  readonly #events = createHeap<SimEvent>(
    (a, b) => a.at < b.at || (a.at === b.at && a.sequence < b.sequence),
  );
  #now: number;
  #sequence = 0;
  /** Events run so far. */
  steps = 0;

  constructor(startAt: number) {
    this.startAt = startAt;
    this.#now = startAt;
  }

  now(): number {
    return this.#now;
  }

  set(ms: number, fn: () => void): Cancel {
    const at = this.#now + Math.max(0, Math.ceil(ms));
    const event: SimEvent = { at, sequence: ++this.#sequence, fn };
    this.#events.push(event);
    return () => {
      event.fn = undefined;
    };
  }

  /** Runs events until that instant, or until `isDone`. */
  async runUntil(endAt: number, isDone: () => boolean = () => false): Promise<void> {
    for (let event = this.#events.peek(); event !== undefined; event = this.#events.peek()) {
      if (event.at > endAt || isDone()) break;
      this.#events.pop();
      if (event.fn === undefined) continue;
      this.#now = event.at;
      this.steps++;
      event.fn();
      for (let turn = 0; turn < MICROTASKS_PER_EVENT; turn++) await undefined;
      if (this.#events.peek()?.at === event.at) continue;
      for (let turn = 0; turn < MICROTASKS_PER_INSTANT; turn++) await undefined;
    }
    if (!isDone()) this.#now = Math.max(this.#now, endAt);
  }
}

/** One node's view of time. */
export class NodeClock implements Clock {
  readonly #clock: SimClock;
  #isDead = false;
  #frozenUntil = 0;

  constructor(clock: SimClock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonicMs(): number {
    return this.#clock.now() - this.#clock.startAt;
  }

  alarm(ms: number, fn: () => void): Cancel {
    return this.#clock.set(ms, () => this.#run(fn));
  }

  /** While the node is paused nothing runs; all of it runs late. */
  #run(fn: () => void): void {
    if (this.#isDead) return;
    const frozenMs = this.#frozenUntil - this.#clock.now();
    if (frozenMs > 0) this.#clock.set(frozenMs, () => this.#run(fn));
    else fn();
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
    this.#frozenUntil = this.#clock.now() + ms;
  }

  kill(): void {
    this.#isDead = true;
  }
}
