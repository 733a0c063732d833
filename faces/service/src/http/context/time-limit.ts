/**
 * Time limit: the caller gets a response even if the store hangs. A write continues; the caller
 * learns that its result is unknown. A read gets a signal and ends with its request.
 */
import type { Clock } from "@redrive/core";
import type { FastifyReply, FastifyRequest, RouteOptions } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { DeadlineTimer, type TimerEntry } from "../../time/deadline-timer.ts";

/** Below the 5 s within which every request must get its response. */
const LIMIT_MS = 4500;

/** Limits the whole response of a route, unless the route limits its own steps. */
export function limitRoute(limit: TimeLimit, route: RouteOptions): void {
  if (route.config?.limit === "own") return;
  const { handler } = route;
  route.handler = function limited(request, reply) {
    const result: unknown = handler.call(this, request, reply);
    if (!(result instanceof Promise)) return result;
    return limit.guard(result, (error) => signals.get(request)?.abort(error));
  };
}

/** The signals of requests that read. */
const signals = new WeakMap<FastifyRequest, AbortController>();

/** Aborted when the time limit of the request is over, or its caller has gone. */
export function signalOf(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const abort = new AbortController();
  signals.set(request, abort);
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) abort.abort(callerGone());
  });
  return abort.signal;
}

export class TimeLimit {
  readonly #clock: Clock;
  readonly #timer: DeadlineTimer;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = new DeadlineTimer(clock);
  }

  /** Watches an entry of the caller until it leaves. It expires after 4.5 s. */
  enter(entry: TimerEntry & { deadlineMs: number }): void {
    entry.deadlineMs = this.#clock.monotonicMs() + LIMIT_MS;
    this.#timer.add(entry);
  }

  leave(entry: TimerEntry): void {
    this.#timer.remove(entry);
  }

  /** Like `guard`. The signal ends the read that `work` starts when its time is over. */
  read<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController();
    return this.guard(work(abort.signal), (error) => abort.abort(error));
  }

  /**
   * Settles like `work`, but rejects with `STORE_UNAVAILABLE` after 4.5 s, and calls `expired` with
   * that error.
   */
  guard<T>(work: Promise<T>, expired: (error: Error) => void = () => {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const entry: TimerEntry = {
        deadlineMs: this.#clock.monotonicMs() + LIMIT_MS,
        slot: -1,
        expire: () => {
          const error = storeTimedOut();
          reject(error);
          expired(error);
        },
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

/** The error for a store that did not respond in time. */
export function storeTimedOut(): Error {
  return serviceError("STORE_UNAVAILABLE", `the store did not respond within ${LIMIT_MS} ms`);
}

function callerGone(): Error {
  return serviceError("REQUEST_TIMEOUT", "the caller closed the connection");
}
