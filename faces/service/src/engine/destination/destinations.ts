/**
 * Destinations: the destinations that this node knows. They are created on first use, and dropped
 * when they are idle and a new one would behave the same, because callers may name any number.
 */
import type { Random, SharedBudget } from "@redrive/core";
import type { EngineTime } from "../../time/engine-time.ts";
import { DestinationRuntime } from "./destination-runtime.ts";

/** Longer than every window of the default guards, so that their state has aged out. */
export const IDLE_MS = 600_000;
const CHECK_INTERVAL_MS = 60_000;

export class Destinations {
  readonly #time: EngineTime;
  readonly #random: Random;
  readonly #serviceBudget: SharedBudget | undefined;
  readonly #byKey = new Map<string, DestinationRuntime>();
  #nextCheckAt = 0;

  /** `serviceBudget`: the retry budget of the whole service; undefined: none. */
  constructor(time: EngineTime, random: Random, serviceBudget: SharedBudget | undefined) {
    this.#time = time;
    this.#random = random;
    this.#serviceBudget = serviceBudget;
  }

  get size(): number {
    return this.#byKey.size;
  }

  values(): Iterable<DestinationRuntime> {
    return this.#byKey.values();
  }

  /** A caller that keeps it across a wait increments `users` meanwhile. */
  getOrCreate(tenantId: string, name: string): DestinationRuntime {
    const key = `${tenantId}\n${name}`;
    let destination = this.#byKey.get(key);
    if (destination === undefined) {
      const random = this.#random.fork(`destination/${key}`);
      const now = this.#time.now();
      destination = new DestinationRuntime(random, { tenantId, name }, now, this.#serviceBudget);
      this.#byKey.set(key, destination);
    }
    return destination;
  }

  /** Checks at most once a minute. */
  dropIdle(): void {
    const now = this.#time.now();
    if (now < this.#nextCheckAt) return;
    this.#nextCheckAt = now + CHECK_INTERVAL_MS;
    for (const [key, destination] of this.#byKey) {
      if (destination.isIdleSince(now - IDLE_MS)) this.#byKey.delete(key);
    }
  }
}
