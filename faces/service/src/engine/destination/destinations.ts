/**
 * Destinations: those that this node knows, made when they are first asked for and dropped when they
 * have been idle and would be the same if made anew: callers may name without end.
 */
import type { Random, RetryBudget } from "@redrive/core";
import type { EngineTime } from "../node/engine-time.ts";
import { DestinationRuntime } from "./destination-runtime.ts";

/** Longer than any window of the default guards, so that time has healed what they had learnt. */
export const IDLE_MS = 600_000;
const LOOK_EVERY_MS = 60_000;

export class Destinations {
  readonly #time: EngineTime;
  readonly #random: Random;
  readonly #whole: RetryBudget | undefined;
  readonly #known = new Map<string, DestinationRuntime>();
  #lookAt = 0;

  /** `whole`: the retry budget of the whole service; undefined: it has none. */
  constructor(time: EngineTime, random: Random, whole: RetryBudget | undefined) {
    this.#time = time;
    this.#random = random;
    this.#whole = whole;
  }

  get size(): number {
    return this.#known.size;
  }

  values(): Iterable<DestinationRuntime> {
    return this.#known.values();
  }

  /** Whoever keeps it over a wait holds it meanwhile (`holders`). */
  getOrCreate(tenantId: string, name: string): DestinationRuntime {
    const key = `${tenantId}\n${name}`;
    let destination = this.#known.get(key);
    if (destination === undefined) {
      const random = this.#random.fork(`destination/${key}`);
      const now = this.#time.now();
      destination = new DestinationRuntime(random, { tenantId, name }, now, this.#whole);
      this.#known.set(key, destination);
    }
    return destination;
  }

  /** Looks once a minute, however often it is called. */
  dropIdle(): void {
    const now = this.#time.now();
    if (now < this.#lookAt) return;
    this.#lookAt = now + LOOK_EVERY_MS;
    for (const [key, destination] of this.#known) {
      if (destination.isIdleSince(now - IDLE_MS)) this.#known.delete(key);
    }
  }
}
