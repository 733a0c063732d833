/**
 * Slots: how many requests a server works on at once, by the concurrency limit of core, and how fast it
 * finishes them.
 */
import {
  Admission,
  admissionRequestOf,
  classifyOutcome,
  concurrencyLimit,
  createGuards,
  guardOptionsOf,
  type Permit,
  type Policy,
  resolveDestination,
  ServerPace,
  statusOutcome,
} from "@redrive/core";
import type { LimiterConfig } from "./limiter-options.ts";

/**
 * How long a request takes, until it is measured. A guess that is too short corrects itself soon: clients
 * that return too early get a measured time. One that is too long keeps them away for nothing.
 */
const GUESS_MS = 100;

export class Slots {
  readonly pace: ServerPace;
  readonly #admission: Admission;
  readonly #policy: Policy;

  constructor({ max, algorithm, random }: LimiterConfig, now: number) {
    const document = {
      retryBudget: false,
      concurrency: { max, maxRetries: max, algorithm },
    } as const;
    const destination = resolveDestination(document);
    const guards = createGuards(guardOptionsOf(destination), now);
    this.#policy = destination.policy;
    this.#admission = new Admission(guards, undefined, random.fork("overload"));
    this.pace = new ServerPace(GUESS_MS / this.limit, now);
  }

  get limit(): number {
    const { concurrency } = this.#admission.guards;
    return concurrency === undefined ? 1 : concurrencyLimit(concurrency);
  }

  get inFlight(): number {
    return this.#admission.inFlight;
  }

  /** Undefined if all slots are taken. */
  take(isRetry: boolean, now: number): Permit | undefined {
    if (this.inFlight === 0) this.pace.recordIdleEnd(now);
    return this.#admission.enter(admissionRequestOf(isRetry, true, false), undefined, now);
  }

  /**
   * Returns a slot. A status that says "too much" (429, 503) lowers the limit, and only successes say how
   * long a request takes. `isBusy`: others wait for the slot.
   */
  leave(permit: Permit, status: number, durationMs: number, now: number, isBusy: boolean): void {
    const wasFull = this.inFlight >= this.limit;
    const outcome = statusOutcome(status);
    const verdict = classifyOutcome(this.#policy, outcome);
    this.#admission.leave(permit, undefined, this.#policy, outcome, verdict, durationMs, now);
    this.pace.recordFinished(now, isBusy || wasFull);
  }
}
