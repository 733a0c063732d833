/**
 * HTTP context: what all routes share: the service, the clock, and the objects that outlive a
 * request: the limits of time, the backlog of tenants, and the watch for ends of tasks.
 */
import type { Clock } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from "fastify";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { EngineEvent } from "../engine/events.ts";
import { serviceError } from "../model/errors.ts";
import { isEnded, type RetryTask } from "../model/task.ts";
import type { TaskCounts } from "../model/task-query.ts";
import type { Simulations } from "../operations/simulations.ts";
import type { Redrive } from "../redrive.ts";
import { DeadlineTimer, type TimerEntry } from "../time/deadline-timer.ts";
import type { Access, Caller, KeyStore, RouteScope } from "./access.ts";
import type { EventStreams } from "./event-streams.ts";
import type { Metrics } from "./metrics.ts";
import type { RepeatedLines } from "./problem.ts";
import type { Visibility } from "./views.ts";

export interface HttpContext {
  readonly redrive: Redrive;
  readonly clock: Clock;
  readonly access: Access;
  /** Undefined: no key is required. */
  readonly keys: KeyStore | undefined;
  readonly limit: TimeLimit;
  readonly watch: TaskWatch;
  readonly backlog: Backlog;
  readonly metrics: Metrics;
  readonly streams: EventStreams;
  /** Idempotency keys whose request is still arriving, with their tenant. */
  readonly arriving: Set<string>;
  /** Undefined: the app has passed no simulator in. */
  readonly simulations: Simulations | undefined;
}

/** Adds a group of routes to the app. */
export type AddRoutes = (app: FastifyInstance, context: HttpContext) => void;

declare module "fastify" {
  interface FastifyRequest {
    /** The caller; set before any route runs. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    /** Default: `admin`, so that a route without a scope is closed. */
    scope?: RouteScope;
    /**
     * `own`: the route uses no store, or limits each step itself because it waits or does many
     * steps. Default: the time limit applies to the whole response.
     */
    limit?: "own";
    /** The body is a stream of any content type and may take long to arrive. */
    upload?: boolean;
  }
  interface FastifyInstance {
    /** True if requests without a key are rejected. */
    requiresKey: boolean;
    /** What the log has once a minute. */
    repeatedLines: RepeatedLines;
    /** True if the operator has disabled keys for every address. */
    isOpenToAll: boolean;
  }
}

export function tenantOf(request: FastifyRequest): string {
  return callerOf(request).tenantId;
}

export function callerOf({ caller }: FastifyRequest): Caller {
  if (caller === null) throw new Error("a route ran before its caller was checked");
  return caller;
}

/** What the caller may see of a task. */
export function visibilityFor(request: FastifyRequest, withBody: boolean): Visibility {
  const { scopes } = callerOf(request);
  return { withBody, mayReadPayload: scopes.has("payload:read") || scopes.has("admin") };
}

// Time limit: the caller gets a response even if the store hangs. A write continues; the caller
// learns that its result is unknown. A read gets a signal and ends with its request.

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

// Backlog: rejects new tasks of a tenant that has too many waiting tasks, so that one tenant cannot
// fill the disk for all. The count is refreshed in the background and may be one second old, or
// older if counting takes long.

type CountTasks = (tenantId: string) => Promise<TaskCounts>;

interface CachedCount {
  waiting: number;
  /** When to count again. */
  dueMs: number;
}

const REFRESH_MS = 1000;

/** Counting takes at most a twentieth of a reader's time, however many destinations there are. */
const REFRESH_FACTOR = 20;

/** Beyond this number of tenants, all are counted again. */
const MAX_TENANTS = 10_000;

export class Backlog {
  readonly #clock: Clock;
  readonly #count: CountTasks;
  readonly #maxWaiting: number;
  readonly #cached = new BoundedCache<CachedCount>(MAX_TENANTS);

  constructor(clock: Clock, count: CountTasks, maxWaiting: number) {
    this.#clock = clock;
    this.#count = count;
    this.#maxWaiting = maxWaiting;
  }

  /** Throws `QUEUE_FULL` if the last known count is at the limit. */
  check(tenantId: string, maxWaiting: number = this.#maxWaiting): void {
    const cached = this.#cachedFor(tenantId);
    if (this.#clock.monotonicMs() >= cached.dueMs) void this.#refresh(tenantId, cached);
    if (cached.waiting < maxWaiting) return;
    throw serviceError(
      "QUEUE_FULL",
      `${cached.waiting} tasks are waiting; the limit is ${maxWaiting}`,
    );
  }

  #cachedFor(tenantId: string): CachedCount {
    let cached = this.#cached.get(tenantId);
    if (cached === undefined) {
      cached = { waiting: 0, dueMs: Number.NEGATIVE_INFINITY };
      this.#cached.set(tenantId, cached);
    }
    return cached;
  }

  /** Store failures are reported elsewhere. */
  async #refresh(tenantId: string, cached: CachedCount): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    // Not again before this count ends.
    cached.dueMs = Number.POSITIVE_INFINITY;
    try {
      const { PENDING = 0, IN_FLIGHT = 0 } = await this.#count(tenantId);
      cached.waiting = PENDING + IN_FLIGHT;
    } catch {
      // The previous count stays.
    }
    const nowMs = this.#clock.monotonicMs();
    cached.dueMs = Math.max(startMs + REFRESH_MS, nowMs + (nowMs - startMs) * REFRESH_FACTOR);
  }
}

// Task watch: lets a request wait until a task has ended. All waits share one event listener, and a
// finished wait is removed.

/** The part of the service that it uses. */
type WatchedService = Pick<Redrive, "get" | "onEvent">;

/** What is known about the task when the wait ends. */
interface WatchResult {
  /** As last read; null: there is no such task; undefined: the store did not respond. */
  readonly task: RetryTask | null | undefined;
  /** Why the last read failed. */
  readonly error?: unknown;
}

export class TaskWatch {
  readonly #clock: Clock;
  readonly #service: WatchedService;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Undefined while nobody waits. */
  #stopListening: (() => void) | undefined;

  constructor(clock: Clock, service: WatchedService) {
    this.#clock = clock;
    this.#service = service;
  }

  /**
   * Resolves once the task has ended, or after `waitMs` with its current state. A store failure
   * ends the wait.
   */
  async waitForEnd(taskId: string, tenantId: string, waitMs: number): Promise<WatchResult> {
    const look = () => this.#service.get(taskId, tenantId);
    let task: RetryTask | null | undefined;
    let wake: () => void = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const cancel = this.#clock.alarm(waitMs, wake);
    this.#add(taskId, wake);
    try {
      // Read after the listener is registered, so that an end between the two is not missed.
      task = await look();
      if (task === null || isEnded(task.status)) return { task };
      await woken;
      return { task: await look() };
    } catch (error) {
      return { task, error };
    } finally {
      cancel();
      this.#remove(taskId, wake);
    }
  }

  /** Number of tasks that requests wait for. */
  size(): number {
    return this.#waiting.size;
  }

  /** Stops listening and ends every wait. */
  stop(): void {
    this.#stopListening?.();
    for (const wakes of this.#waiting.values()) for (const wake of wakes) wake();
  }

  #onEvent({ type, taskId }: EngineEvent): void {
    if (taskId === undefined) return;
    const isEnd =
      type === "task.succeeded" || type === "task.exhausted" || type === "task.cancelled";
    if (isEnd) for (const wake of this.#waiting.get(taskId) ?? []) wake();
  }

  #add(taskId: string, wake: () => void): void {
    const wakes = this.#waiting.get(taskId) ?? new Set();
    this.#waiting.set(taskId, wakes.add(wake));
    this.#stopListening ??= this.#service.onEvent((event) => this.#onEvent(event));
  }

  #remove(taskId: string, wake: () => void): void {
    const wakes = this.#waiting.get(taskId);
    wakes?.delete(wake);
    if (wakes?.size === 0) this.#waiting.delete(taskId);
    if (this.#waiting.size > 0) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }
}
