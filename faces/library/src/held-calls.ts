/**
 * Held calls: the calls that a destination's guards hold, and the one alarm that wakes them in
 * order. A destination whose calls are never held has no alarm.
 */
import {
  type Admission,
  type Cancel,
  type WaitingCallHandler,
  WaitingCalls,
  type WaitingEntry,
} from "@redrive/core";
import type { Call } from "./call.ts";
import type { Setting } from "./setting.ts";

/** Calls of every type wait in one queue. */
// biome-ignore lint/suspicious/noExplicitAny: what a call returns does not matter while it waits
export type AnyCall = Call<any>;

export class HeldCalls {
  readonly queue: WaitingCalls<AnyCall>;
  readonly #setting: Setting;
  #alarmAt: number = Number.POSITIVE_INFINITY;
  #cancelAlarm: Cancel | undefined = undefined;

  constructor(admission: Admission, host: WaitingCallHandler<AnyCall>, setting: Setting) {
    this.queue = new WaitingCalls(admission, host);
    this.#setting = setting;
  }

  /** A guard may have changed: whoever may go now goes. */
  wake(now: number): void {
    if (this.queue.size === 0) return;
    this.queue.wake(now);
    this.arm(now);
  }

  /** The call waits no longer: it was aborted, or its time is over. */
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
    const { clock, ticker } = this.#setting;
    this.#cancelAlarm = clock.alarm(Math.max(0, delayMs), () => {
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.wake(ticker.turn.now());
    });
  }
}
