/**
 * Sweeper: removes expired keys from the store, in the background and in small steps. It removes keys
 * faster than new ones come, so a table does not grow without a limit.
 */
import { notify } from "../call/call-event.ts";
import type { IdempotencyConfig } from "./idempotency-options.ts";

const INTERVAL_MS = 10_000;
const MIN_KEYS = 100;
const MAX_KEYS = 1000;

export class Sweeper {
  readonly #config: IdempotencyConfig;
  #claims = 0;
  #sweptMs: number;

  constructor(config: IdempotencyConfig) {
    this.#config = config;
    this.#sweptMs = config.clock.monotonicMs();
  }

  /** Call it for each new key. Starts a sweep if the last one is long enough ago. */
  countClaim(): void {
    this.#claims++;
    const nowMs = this.#config.clock.monotonicMs();
    const isDue = nowMs - this.#sweptMs >= INTERVAL_MS || this.#claims >= MAX_KEYS / 2;
    if (!isDue) return;
    const limit = Math.min(MAX_KEYS, Math.max(MIN_KEYS, 2 * this.#claims));
    this.#sweptMs = nowMs;
    this.#claims = 0;
    void this.#sweep(limit);
  }

  async #sweep(limit: number): Promise<void> {
    const { store, onEvent, clock } = this.#config;
    try {
      await store.sweep(limit);
    } catch (error) {
      const at = clock.now();
      notify(onEvent, { type: "store-failed", at, method: "", during: "sweep", error });
    }
  }
}
