/**
 * Held calls: the calls that a destination's guards hold, and the single alarm that wakes them in
 * order. A destination that holds no calls has no alarm.
 */
import {
  type Admission,
  type Cancel,
  type WaitingCallHandler,
  WaitingCalls,
  type WaitingEntry,
} from "@redrive/core";
import type { Call } from "../call/call.ts";
import type { CallConfig } from "../call/call-config.ts";

/** Calls with different result types wait in one queue. */
// biome-ignore lint/suspicious/noExplicitAny: what a call returns does not matter while it waits
export type AnyCall = Call<any>;

export class HeldCalls {
  readonly queue: WaitingCalls<AnyCall>;
  readonly #config: CallConfig;
  #alarmAt: number = Number.POSITIVE_INFINITY;
  #cancelAlarm: Cancel | undefined = undefined;

  constructor(admission: Admission, handler: WaitingCallHandler<AnyCall>, config: CallConfig) {
    this.queue = new WaitingCalls(admission, handler);
    this.#config = config;
  }

  /** Starts the calls that the guards now admit. Called when a guard may have changed. */
  wake(now: number): void {
    if (this.queue.size === 0) return;
    this.queue.wake(now);
    this.arm(now);
  }

  /** Removes a call that was aborted or has no time left. */
  remove(entry: WaitingEntry<AnyCall>): void {
    this.queue.remove(entry);
    if (this.queue.size === 0) this.#setAlarm(Number.POSITIVE_INFINITY, 0);
  }

  arm(now: number): void {
    const { wakeAt } = this.queue;
    if (wakeAt !== this.#alarmAt) this.#setAlarm(wakeAt, wakeAt - now);
  }

  #setAlarm(at: number, delayMs: number): void {
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    this.#alarmAt = at;
    if (at === Number.POSITIVE_INFINITY) return;
    const { clock, timer } = this.#config;
    this.#cancelAlarm = clock.alarm(Math.max(0, delayMs), () => {
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.wake(timer.clock.now());
    });
  }
}
