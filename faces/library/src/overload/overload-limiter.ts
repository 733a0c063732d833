/**
 * Overload limiter: lets a server do as much as it can, and refuses the rest early, with an honest
 * Retry-After. It is an interceptor: the adapters (`forNode` and so on) put it in front of handlers.
 * Core finds the limit, orders the queue and computes when refused clients should return.
 */
import {
  AttemptQueue,
  type Cancel,
  fairRoom,
  type Permit,
  type QueuedAttempt,
} from "@redrive/core";
import { notify } from "../call/call-event.ts";
import { attemptNumber, callerLayer } from "../http/hop-headers.ts";
import {
  type HandlerRun,
  type Interceptor,
  PASS_ON,
  type PlainResponse,
  type ServedRequest,
} from "../serve/interceptor.ts";
import {
  type LimiterConfig,
  type LimiterStats,
  type OverloadLimiterOptions,
  resolveLimiterOptions,
  type ShedReason,
} from "./limiter-options.ts";
import { refusal } from "./refusal.ts";
import { Slots } from "./slots.ts";

export interface OverloadLimiter<Native = unknown> extends Interceptor<Native> {
  stats(): LimiterStats;
}

/** Throws for options that are not valid. Use one limiter for everything that shares a process. */
export function overloadLimiter<Native = unknown>(
  options: OverloadLimiterOptions<Native> = {},
): OverloadLimiter<Native> {
  return new Limiter(
    resolveLimiterOptions(options as OverloadLimiterOptions),
  ) as OverloadLimiter<Native>;
}

/** A request that has arrived. */
interface Arrival {
  readonly isRetry: boolean;
  readonly caller: string;
  /** When the client gives up; Infinity if it did not say. */
  readonly deadlineAt: number;
}

/** A request in the queue, and how to answer it. */
interface Waiting extends Arrival {
  readonly answer: (begun: PlainResponse | HandlerRun) => void;
  cancelTimeout: Cancel;
}

class Limiter implements OverloadLimiter {
  readonly #config: LimiterConfig;
  readonly #slots: Slots;
  readonly #queue: AttemptQueue<Waiting>;
  /** Requests of each caller that are in progress or wait. */
  readonly #callers = new Map<string, number>();
  readonly #shed: Record<ShedReason, number> = {
    overload: 0,
    displaced: 0,
    caller: 0,
    deadline: 0,
  };
  #admitted = 0;

  constructor(config: LimiterConfig) {
    this.#config = config;
    this.#slots = new Slots(config, config.clock.now());
    this.#queue = new AttemptQueue(config.queue);
  }

  stats(): LimiterStats {
    const { limit, inFlight, pace } = this.#slots;
    const drainPerSecond = 1000 / Math.max(0.001, pace.intervalMs(this.#config.clock.now()));
    const queued = this.#queue.size;
    const shed = { ...this.#shed };
    return { limit, inFlight, queued, drainPerSecond, admitted: this.#admitted, shed };
  }

  async begin(request: ServedRequest): Promise<PlainResponse | HandlerRun> {
    const { clock, exempt } = this.#config;
    if (exempt?.(request)) return PASS_ON;
    const now = clock.now();
    const arrival = this.#arrivalOf(request, now);
    if (!arrival.isRetry) this.#slots.pace.countFirstAttempt(now);
    if (arrival.deadlineAt <= now) return this.#refuse(arrival, "deadline", now);
    if (!this.#hasShare(arrival.caller)) return this.#refuse(arrival, "caller", now);
    const permit = this.#queue.size === 0 ? this.#slots.take(arrival.isRetry, now) : undefined;
    if (permit === undefined) return await this.#wait(request, arrival, now);
    this.#count(arrival.caller, 1);
    return this.#start(arrival, permit);
  }

  #arrivalOf(request: ServedRequest, now: number): Arrival {
    const headers = { get: (name: string) => request.header(name) };
    return {
      isRetry: attemptNumber(headers) > 1,
      caller: this.#config.caller?.(request) ?? "",
      deadlineAt: callerLayer(headers, now).deadlineAt ?? Number.POSITIVE_INFINITY,
    };
  }

  /** One caller may use everything that the others do not need, up to seven eighths. */
  #hasShare(caller: string): boolean {
    if (this.#config.caller === undefined) return true;
    const { limit, inFlight } = this.#slots;
    const used = inFlight + this.#queue.size;
    const own = this.#callers.get(caller) ?? 0;
    // When everything is taken, the queue decides.
    const places = limit + this.#config.queue;
    return used >= places || fairRoom(places, used, own) >= 1;
  }

  /** A request that would wait for too long is refused at once: waiting would only delay the answer. */
  async #wait(
    request: ServedRequest,
    arrival: Arrival,
    now: number,
  ): Promise<PlainResponse | HandlerRun> {
    const { maxQueueMs, clock } = this.#config;
    const leftMs = Math.min(maxQueueMs, arrival.deadlineAt - now);
    const expectedMs = (this.#queue.ahead(arrival.isRetry) + 1) * this.#slots.pace.intervalMs(now);
    if (expectedMs > leftMs) return this.#refuse(arrival, "overload", now);
    return await new Promise((answer) => {
      const waiting: Waiting = { ...arrival, answer, cancelTimeout: () => undefined };
      const entry = this.#queue.join(waiting, arrival.isRetry);
      if (this.#queue.displaced !== undefined) this.#giveUp(this.#queue.displaced, "displaced");
      if (entry === undefined) {
        answer(this.#refuse(arrival, "overload", now));
        return;
      }
      this.#count(arrival.caller, 1);
      waiting.cancelTimeout = clock.alarm(leftMs, () =>
        this.#leaveQueue(entry, arrival.deadlineAt <= clock.now() ? "deadline" : "overload"),
      );
      request.onGone(() => this.#leaveQueue(entry, "deadline"));
    });
  }

  #leaveQueue(entry: QueuedAttempt<Waiting>, reason: ShedReason): void {
    if (!entry.isWaiting) return;
    this.#queue.remove(entry);
    this.#giveUp(entry.value, reason);
  }

  /** For a request that has left the queue. */
  #giveUp(waiting: Waiting, reason: ShedReason): void {
    waiting.cancelTimeout();
    this.#count(waiting.caller, -1);
    waiting.answer(this.#refuse(waiting, reason, this.#config.clock.now()));
  }

  #start(arrival: Arrival, permit: Permit): HandlerRun {
    const { clock } = this.#config;
    const startedMs = clock.monotonicMs();
    let isOver = false;
    const end = (status: number) => {
      if (isOver) return;
      isOver = true;
      const now = clock.now();
      const durationMs = clock.monotonicMs() - startedMs;
      this.#slots.leave(permit, status, durationMs, now, this.#queue.size > 0);
      this.#count(arrival.caller, -1);
      this.#startWaiting(now);
    };
    this.#admitted++;
    return {
      ...PASS_ON,
      sent: end,
      async failed() {
        end(FAILED_STATUS);
        return undefined;
      },
    };
  }

  /** Gives free slots to requests that wait. */
  #startWaiting(now: number): void {
    for (let next = this.#queue.peek(); next !== undefined; next = this.#queue.peek()) {
      const permit = this.#slots.take(next.isRetry, now);
      if (permit === undefined) return;
      this.#serve(next, permit);
    }
  }

  #serve(entry: QueuedAttempt<Waiting>, permit: Permit): void {
    const { value: waiting } = entry;
    this.#queue.serve(entry);
    waiting.cancelTimeout();
    waiting.answer(this.#start(waiting, permit));
  }

  #refuse({ isRetry }: Arrival, reason: ShedReason, now: number): PlainResponse {
    const { maxRetryAfterMs, random, onEvent } = this.#config;
    const waiting = this.#queue.ahead(isRetry) + 1;
    const waitMs =
      reason === "deadline"
        ? 0
        : this.#slots.pace.returnMs(waiting, maxRetryAfterMs, now, random.next());
    this.#shed[reason]++;
    notify(onEvent, { type: "shed", at: now, reason, isRetry, retryAfterMs: waitMs } as const);
    return refusal(reason, waitMs);
  }

  #count(caller: string, step: 1 | -1): void {
    const count = (this.#callers.get(caller) ?? 0) + step;
    if (count === 0) this.#callers.delete(caller);
    else this.#callers.set(caller, count);
  }
}

/** A handler that threw says nothing about the load. */
const FAILED_STATUS = 500;
