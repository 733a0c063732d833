/**
 * Time limit: an answer is due even when the store hangs. What is asked of it goes on; the caller is
 * told that nothing is known. All waits are of one length, so that one alarm serves them in order.
 */
import type { Clock } from "@redrive/core";
import type { RouteOptions } from "fastify";
import { serviceError } from "../../model/errors.ts";

/** Below the 5 s within which a caller must be answered. */
const LIMIT_MS = 4500;

interface Waiting {
  readonly dueMs: number;
  readonly reject: (error: Error) => void;
}

/** Limits the whole answer of a route, unless the route says that it limits its own steps. */
export function limitRoute(limit: TimeLimit, route: RouteOptions): void {
  if (route.config?.limit === "own") return;
  const { handler } = route;
  route.handler = function limited(request, reply) {
    const answer: unknown = handler.call(this, request, reply);
    return answer instanceof Promise ? limit.guard(answer) : answer;
  };
}

export class TimeLimit {
  readonly #clock: Clock;
  /** In the order in which they are due. */
  readonly #waiting = new Set<Waiting>();
  #isArmed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** As `work`, but rejects with `STORE_UNAVAILABLE` when that takes too long. */
  guard<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting = { dueMs: this.#clock.monotonicMs() + LIMIT_MS, reject };
      this.#waiting.add(waiting);
      if (!this.#isArmed) this.#arm(LIMIT_MS);
      work.then(
        (value) => {
          this.#waiting.delete(waiting);
          resolve(value);
        },
        (error: unknown) => {
          this.#waiting.delete(waiting);
          reject(error);
        },
      );
    });
  }

  #arm(ms: number): void {
    this.#isArmed = true;
    this.#clock.alarm(ms, () => this.#ring(), true);
  }

  #ring(): void {
    this.#isArmed = false;
    const nowMs = this.#clock.monotonicMs();
    for (const waiting of this.#waiting) {
      if (waiting.dueMs > nowMs) {
        this.#arm(waiting.dueMs - nowMs);
        return;
      }
      this.#waiting.delete(waiting);
      const text = `the store did not answer within ${LIMIT_MS} ms`;
      waiting.reject(serviceError("STORE_UNAVAILABLE", text));
    }
  }
}
