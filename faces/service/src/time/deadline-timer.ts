/**
 * Deadline timer: one alarm for many deadlines. Nearly every entry is removed long before its
 * deadline, so one timer per entry would be wasted work. Adding and removing an entry moves one
 * element of a list; the alarm checks the remaining entries when the earliest deadline is due.
 */
import type { Cancel, Clock } from "@redrive/core";

/** Something that must end in time. */
export interface TimerEntry {
  /** On the clock's monotonic scale. */
  readonly deadlineMs: number;
  /** Its index in the list, maintained by `DeadlineTimer`; -1 when it is not in the list. */
  slot: number;
  /** Called once, at or after the deadline, unless the entry was removed. */
  expire(): void;
}

export class DeadlineTimer {
  readonly #clock: Clock;

  // Mutable state. While the list is not empty, the alarm rings no later than the earliest
  // deadline. A list and not a set: a set that is filled and emptied all the time is copied
  // repeatedly, and its old copies keep every entry of the last second alive past the young
  // generation.
  readonly #members: TimerEntry[] = [];
  #ringsAtMs = Number.POSITIVE_INFINITY;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(member: TimerEntry): void {
    member.slot = this.#members.push(member) - 1;
    if (member.deadlineMs < this.#ringsAtMs) this.#arm(member.deadlineMs);
  }

  /**
   * Removing does not move the alarm. It rings, finds nothing due and is set for the next deadline.
   */
  remove(member: TimerEntry): void {
    if (member.slot < 0) return;
    const last = this.#members.pop();
    if (last !== undefined && last !== member) {
      this.#members[member.slot] = last;
      last.slot = member.slot;
    }
    member.slot = -1;
  }

  /** Number of entries. */
  get size(): number {
    return this.#members.length;
  }

  #arm(atMs: number): void {
    this.#cancel?.();
    this.#ringsAtMs = atMs;
    // In the background: the socket of the attempt or request keeps the process alive.
    this.#cancel = this.#clock.alarm(atMs - this.#clock.monotonicMs(), () => this.#ring(), true);
  }

  #ring(): void {
    this.#cancel = undefined;
    this.#ringsAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.monotonicMs();
    let earliestMs = Number.POSITIVE_INFINITY;
    // A copy: an expiring entry is removed and may add or remove others.
    for (const member of [...this.#members]) {
      if (member.slot >= 0 && member.deadlineMs <= nowMs) this.#expire(member);
      else if (member.slot >= 0) earliestMs = Math.min(earliestMs, member.deadlineMs);
    }
    if (earliestMs < this.#ringsAtMs) this.#arm(earliestMs);
  }

  #expire(member: TimerEntry): void {
    this.remove(member);
    member.expire();
  }
}

// Settles within: waits for a promise for at most `ms`.

/** True once `work` has settled, false if it has not after `ms`. The work continues either way. */
export function settlesWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.alarm(ms, () => resolve(false));
    const ended = () => {
      cancel();
      resolve(true);
    };
    work.then(ended, ended);
  });
}
