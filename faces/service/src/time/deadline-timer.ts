/**
 * Deadlines: one alarm for all attempts under way. Nearly every attempt ends long before its
 * deadline, so setting and clearing a timer for each would be work for nothing: here joining and
 * leaving moves one entry of a list, and the one alarm looks through those still there when the
 * earliest is due.
 */
import type { Cancel, Clock } from "@redrive/core";

/** Something that must end in time. */
export interface TimerEntry {
  /** On the clock's monotonic scale. */
  readonly deadlineMs: number;
  /** Its place in the list, kept by `Deadlines`; -1 outside. */
  slot: number;
  /** Called once, at or after the deadline, unless it has left. */
  expire(): void;
}

export class DeadlineTimer {
  readonly #clock: Clock;

  // Mutable state. While anyone is in, the alarm rings no later than the earliest deadline. A list
  // and not a set: a set that is filled and emptied all the time is copied again and again, and its
  // old copies keep every attempt of the last second from being collected young.
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

  /** Leaving does not move the alarm: it will ring, find nobody late and be set for the next. */
  remove(member: TimerEntry): void {
    if (member.slot < 0) return;
    const last = this.#members.pop();
    if (last !== undefined && last !== member) {
      this.#members[member.slot] = last;
      last.slot = member.slot;
    }
    member.slot = -1;
  }

  /** How many are in. */
  get size(): number {
    return this.#members.length;
  }

  #arm(atMs: number): void {
    this.#cancel?.();
    this.#ringsAtMs = atMs;
    // In the background: what keeps the process alive is the socket of an attempt.
    this.#cancel = this.#clock.alarm(atMs - this.#clock.monotonicMs(), () => this.#ring(), true);
  }

  #ring(): void {
    this.#cancel = undefined;
    this.#ringsAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.monotonicMs();
    let earliestMs = Number.POSITIVE_INFINITY;
    // A copy: those who expire leave, and may let others join or leave.
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
