/**
 * Time limit: an answer is due even when the store hangs. What is asked of it goes on; the caller is
 * told that nothing is known. All waits are of one length, so that one alarm serves them in order.
 */
import type { Clock } from "@redrive/core";
import type { RouteOptions } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { DeadlineTimer, type TimerEntry } from "../../time/deadline-timer.ts";

/** Below the 5 s within which a caller must be answered. */
const LIMIT_MS = 4500;

/** Limits the whole answer of a route, unless the route says that it limits its own steps. */
export function limitRoute(limit: TimeLimit, route: RouteOptions): void {
  if (route.config?.limit === "own") return;
  const { handler } = route;
  route.handler = function limited(request, reply) {
    const result: unknown = handler.call(this, request, reply);
    return result instanceof Promise ? limit.guard(result) : result;
  };
}

export class TimeLimit {
  readonly #clock: Clock;
  readonly #timer: DeadlineTimer;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = new DeadlineTimer(clock);
  }

  /** Settles like `work`, but rejects with `STORE_UNAVAILABLE` after 4.5 s. */
  guard<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const entry: TimerEntry = {
        deadlineMs: this.#clock.monotonicMs() + LIMIT_MS,
        slot: -1,
        expire: () => reject(storeTimedOut()),
      };
      this.#timer.add(entry);
      work.then(
        (value) => {
          this.#timer.remove(entry);
          resolve(value);
        },
        (error: unknown) => {
          this.#timer.remove(entry);
          reject(error);
        },
      );
    });
  }
}

function storeTimedOut(): Error {
  return serviceError("STORE_UNAVAILABLE", `the store did not respond within ${LIMIT_MS} ms`);
}
