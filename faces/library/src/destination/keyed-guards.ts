/**
 * Keyed guards: the guards of one destination in this process. Only core's `Admission` changes their
 * state; this file adds one breaker per key.
 */
import {
  Admission,
  type Breaker,
  createBreaker,
  type Destination,
  type Guards,
  type Random,
} from "@redrive/core";
import { setBounded } from "./bounded-map.ts";

export class KeyedGuards {
  readonly admission: Admission;
  /** The breaker of calls without a key. */
  readonly breaker: Breaker | undefined;
  /** One breaker per key: a failing shard must not stop calls to the others. */
  readonly breakers: Map<string, Breaker> = new Map();
  readonly #options: Destination;

  constructor(options: Destination, guards: Guards, random: Random) {
    this.#options = options;
    this.breaker = guards.breaker;
    this.admission = new Admission(guards, options.retryAfterGate, random.fork("guards"));
  }

  /** The guards that all calls of the destination share. */
  get shared(): Guards {
    return this.admission.guards;
  }

  /** The breaker for a key; undefined if the destination has no breaker. */
  breakerOf(key: string, now: number): Breaker | undefined {
    const known = this.breakers.get(key);
    if (known !== undefined || this.#options.breaker === undefined) return known;
    const breaker = createBreaker(this.#options.breaker, now);
    setBounded(this.breakers, key, breaker);
    return breaker;
  }
}
