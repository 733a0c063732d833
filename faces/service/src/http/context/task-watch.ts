/**
 * Task watch: lets a request wait until a task has ended. All waits share one event listener, and a
 * finished wait is removed.
 */
import type { Clock } from "@redrive/core";
import type { EngineEvent } from "../../engine/events/engine-event.ts";
import { isEnded, type RetryTask } from "../../model/task.ts";
import type { Redrive } from "../../redrive.ts";

/** The part of the service that it uses. */
export type WatchedService = Pick<Redrive, "get" | "onEvent">;

/** What is known about the task when the wait ends. */
export interface WatchResult {
  /** As last read; null: there is no such task; undefined: the store did not respond. */
  readonly task: RetryTask | null | undefined;
  /** Why the last read failed. */
  readonly error?: unknown;
}

export class TaskWatch {
  readonly #clock: Clock;
  readonly #service: WatchedService;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #stopListening: () => void;

  constructor(clock: Clock, service: WatchedService) {
    this.#clock = clock;
    this.#service = service;
    this.#stopListening = service.onEvent((event) => this.#onEvent(event));
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
    this.#stopListening();
    for (const wakes of this.#waiting.values()) for (const wake of wakes) wake();
  }

  #onEvent({ type, taskId }: EngineEvent): void {
    if (this.#waiting.size === 0 || taskId === undefined) return;
    const isEnd =
      type === "task.succeeded" || type === "task.exhausted" || type === "task.cancelled";
    if (isEnd) for (const wake of this.#waiting.get(taskId) ?? []) wake();
  }

  #add(taskId: string, wake: () => void): void {
    const wakes = this.#waiting.get(taskId) ?? new Set();
    this.#waiting.set(taskId, wakes.add(wake));
  }

  #remove(taskId: string, wake: () => void): void {
    const wakes = this.#waiting.get(taskId);
    wakes?.delete(wake);
    if (wakes?.size === 0) this.#waiting.delete(taskId);
  }
}
