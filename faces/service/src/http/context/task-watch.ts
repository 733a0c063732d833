/**
 * Task watch: lets a request wait until a task has ended. One listener for all of them, and a wait
 * that is over leaves nothing behind.
 */
import type { Clock } from "@redrive/core";
import type { EngineEvent } from "../../engine/events/engine-event.ts";
import { isEnded, type RetryTask } from "../../model/task.ts";
import type { Redrive } from "../../redrive.ts";

/** What is asked of the service. */
export type WatchedService = Pick<Redrive, "get" | "onEvent">;

/** What is known of a task when the wait for its end is over. */
export interface WatchResult {
  /** As it was last seen; null: there is none; undefined: the store has not said. */
  readonly task: RetryTask | null | undefined;
  /** Why it could not be looked at in the end. */
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

  /** The task once it has ended, or as it is after `waitMs`. A store that fails ends the wait. */
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
      // Looked at only now, so that no end falls between looking and listening.
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

  /** Requests that wait now. */
  size(): number {
    return this.#waiting.size;
  }

  /** Ends the listening and every wait. */
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
