/**
 * Overload limiter: lets a server do as much as it can, and refuses the rest early, with an honest
 * Retry-After. It is an interceptor: the adapters (`forNode` and so on) put it in front of handlers.
 * Core finds the limit, orders the queue and computes when refused clients should return.
 */
import {
  Admission,
  AttemptQueue,
  admissionRequestOf,
  assertRange,
  type Cancel,
  type Clock,
  classifyOutcome,
  concurrencyLimit,
  createGuards,
  fairRoom,
  guardOptionsOf,
  invalidArgument,
  type Permit,
  type Policy,
  type QueuedAttempt,
  type Random,
  resolveDestination,
  retryAfterSeconds,
  ServerPace,
  statusOutcome,
  systemClock,
  systemRandom,
} from "@redrive/core";
import { notify } from "../call/call-event.ts";
import {
  type HandlerRun,
  type Interceptor,
  PASS_ON,
  type PlainResponse,
  type ServedRequest,
} from "../serve/interceptor.ts";
import { problemResponse } from "../serve/problem.ts";
import { assertTrust, attemptNumber, callerLayer, isTrusted, type Trust } from "./hop-headers.ts";

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
    const { trust, caller } = this.#config;
    const get = (name: string) => request.header(name);
    const headers = { get: isTrusted(trust, request) ? get : () => undefined };
    return {
      isRetry: attemptNumber(headers) > 1,
      caller: caller?.(request) ?? "",
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
      // How soon a client goes away is up to the client.
      gone: () => end(FAILED_STATUS),
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

/** A handler that threw, or was cut off, says nothing about the load. */
const FAILED_STATUS = 500;

// What `overloadLimiter` accepts, with its defaults and bounds.

export interface OverloadLimiterOptions<Native = unknown> {
  /** Maximum number of requests in progress. 1 to 100,000. Default: 200. */
  readonly max?: number | undefined;
  /**
   * How the limit is found, below `max`: from the durations of requests (GRADIENT, VEGAS), from
   * refusals of what the server itself calls (AIMD), or it is `max` (FIXED). Default: GRADIENT.
   */
  readonly algorithm?: "GRADIENT" | "VEGAS" | "AIMD" | "FIXED" | undefined;
  /** Requests that may wait for a slot. 0 to 100,000. Default: 100. */
  readonly queue?: number | undefined;
  /** How long a request may wait for a slot. 1 ms to 1 min. Default: 1 s. */
  readonly maxQueueMs?: number | undefined;
  /** Longest `Retry-After`. 1 s to 1 h. Default: 60 s. */
  readonly maxRetryAfterMs?: number | undefined;
  /**
   * Who sends the request. A caller that uses more than its share is refused (429) before the others
   * are. Default: all requests count as one caller.
   */
  readonly caller?: ((request: ServedRequest<Native>) => string) | undefined;
  /**
   * Whose headers say which attempt a request is, and how long its client waits. With `none`, every request
   * counts as a first attempt without a deadline: anybody can send these headers, and retries have places
   * of their own in the queue. Default: `none`.
   */
  readonly trust?: Trust<ServedRequest<Native>> | undefined;
  /** Requests that are passed on, such as health checks. Default: none. */
  readonly exempt?: ((request: ServedRequest<Native>) => boolean) | undefined;
  readonly onEvent?: ((event: OverloadEvent) => void) | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Default: the system's. */
  readonly random?: Random | undefined;
}

/** Why a request was refused. */
export type ShedReason =
  /** The queue was full, or the wait would have been too long. */
  | "overload"
  /** A first attempt took the place of this retry in the queue. */
  | "displaced"
  /** The caller has used its share. */
  | "caller"
  /** The client does not wait for the response any more. */
  | "deadline";

export interface OverloadEvent {
  readonly type: "shed";
  /** Epoch ms. */
  readonly at: number;
  readonly reason: ShedReason;
  readonly isRetry: boolean;
  /** What the client was told. */
  readonly retryAfterMs: number;
}

/** The state of a limiter, for reports. */
export interface LimiterStats {
  /** The current limit of requests in progress. */
  readonly limit: number;
  readonly inFlight: number;
  readonly queued: number;
  /** Requests that the server finishes per second while it is busy. */
  readonly drainPerSecond: number;
  readonly admitted: number;
  /** Refused requests by reason. */
  readonly shed: Readonly<Record<ShedReason, number>>;
}

type Optional = "caller" | "exempt" | "onEvent";
type Complete<T> = { readonly [Name in keyof T]-?: NonNullable<T[Name]> };

/** The options with their defaults. */
type LimiterConfig = Complete<Omit<OverloadLimiterOptions, Optional>> &
  Pick<OverloadLimiterOptions, Optional>;

const ALGORITHMS = ["GRADIENT", "VEGAS", "AIMD", "FIXED"];

/** Default, minimum and maximum. */
const BOUNDS = {
  max: [200, 1, 100_000],
  queue: [100, 0, 100_000],
  maxQueueMs: [1000, 1, 60_000],
  maxRetryAfterMs: [60_000, 1000, 3_600_000],
} as const;

/** Throws unless every option is within its bounds. */
function resolveLimiterOptions(options: OverloadLimiterOptions): LimiterConfig {
  const { algorithm = "GRADIENT", trust = "none" } = options;
  if (!ALGORITHMS.includes(algorithm)) {
    throw invalidArgument(`algorithm must be one of ${ALGORITHMS.join(", ")}`, algorithm);
  }
  assertTrust(trust);
  const numbers = Object.entries(BOUNDS).map(([name, [fallback, min, max]]) => {
    const value = options[name as keyof typeof BOUNDS] ?? fallback;
    assertRange(name, value, min, max);
    if (!Number.isInteger(value)) throw invalidArgument(`${name} must be a whole number`, value);
    return [name, value] as const;
  });
  return {
    ...options,
    ...(Object.fromEntries(numbers) as Record<keyof typeof BOUNDS, number>),
    algorithm,
    trust,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
  };
}

/**
 * How long a request takes, until it is measured. A guess that is too short corrects itself soon: clients
 * that return too early get a measured time. One that is too long keeps them away for nothing.
 */
const GUESS_MS = 100;

/**
 * How many requests a server works on at once, by the concurrency limit of core, and how fast it finishes them.
 */
class Slots {
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

const AGAIN = "send the request again after Retry-After";

/** `waitMs` is when the server expects to have room. */
function refusal(reason: ShedReason, waitMs: number): PlainResponse {
  const retry = { retryAfterSeconds: retryAfterSeconds(waitMs), notExecuted: true };
  switch (reason) {
    case "caller":
      return problemResponse({
        status: 429,
        code: "TOO_MANY_REQUESTS",
        title: "Too many requests of this caller",
        detail: `this caller has as many requests in progress as it may have: ${AGAIN}`,
        ...retry,
      });
    case "deadline":
      return problemResponse({
        status: 504,
        code: "DEADLINE_PASSED",
        title: "The time of the request is over",
        detail:
          "the client does not wait for the response any more, so the request was not executed",
        notExecuted: true,
      });
    default:
      return problemResponse({
        status: 503,
        code: "SERVER_OVERLOADED",
        title: "The server is overloaded",
        detail: `the request was not executed: ${AGAIN}`,
        ...retry,
      });
  }
}
