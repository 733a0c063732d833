/**
 * Gatekeeper: the guards of one destination in this process. Core's `Admission` alone steps them;
 * this file adds a breaker for each key that calls name.
 */
import {
  Admission,
  type Breaker,
  createBreaker,
  type Destination,
  type Guards,
  type Random,
} from "@redrive/core";
import { put } from "./bounded.ts";

export class Gatekeeper {
  readonly admission: Admission;
  /** The destination's own, for calls without a key. */
  readonly breaker: Breaker | undefined;
  /** One breaker per key: a failing shard must not stop calls to the others. */
  readonly breakers: Map<string, Breaker> = new Map();
  readonly #options: Destination;

  constructor(options: Destination, guards: Guards, random: Random) {
    this.#options = options;
    this.breaker = guards.breaker;
    this.admission = new Admission(guards, options.retryAfterGate, random.fork("guards"));
  }

  get guards(): Guards {
    return this.admission.guards;
  }

  /** The breaker for a key, if there are breakers. */
  breakerOf(key: string, now: number): Breaker | undefined {
    const known = this.breakers.get(key);
    if (known !== undefined || this.#options.breaker === undefined) return known;
    const breaker = createBreaker(this.#options.breaker, now);
    put(this.breakers, key, breaker);
    return breaker;
  }
}
