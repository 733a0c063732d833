/**
 * Scenario clock: virtual time for hours of traffic. As `virtualClock`, but alarms are in a heap, and
 * between two instants all promises settle, however long their chain is.
 */
import type { Clock } from "@redrive/core";
import { Heap } from "./heap.ts";

interface Alarm {
  readonly at: number;
  readonly sequence: number;
  fn: (() => void) | undefined;
}

export interface ScenarioClock extends Clock {
  /** Fires everything that is due up to then, in order. */
  runUntil(at: number): Promise<void>;
  /** Runs until the condition holds; false if it does not by then. It is checked after each instant. */
  runUntilHolds(condition: () => boolean, at: number): Promise<boolean>;
}

export function scenarioClock(startAt: number): ScenarioClock {
  const alarms = new Heap<Alarm>(
    (a, b) => a.at < b.at || (a.at === b.at && a.sequence < b.sequence),
  );
  let now = startAt;
  let sequence = 0;

  function alarm(ms: number, fn: () => void): () => void {
    const entry: Alarm = { at: now + Math.max(0, Math.ceil(ms)), sequence: sequence++, fn };
    alarms.push(entry);
    return () => {
      entry.fn = undefined;
    };
  }

  /** Alarms that the due ones set for now belong to the next turn. */
  function fireDue(): void {
    const next = sequence;
    for (let due = alarms.first(); due !== undefined && due.at <= now; due = alarms.first()) {
      if (due.sequence >= next) break;
      alarms.pop();
      due.fn?.();
    }
  }

  async function runUntilHolds(condition: () => boolean, at: number): Promise<boolean> {
    await settle();
    while (!condition()) {
      const dueAt = alarms.first()?.at ?? Number.POSITIVE_INFINITY;
      now = Math.max(now, Math.min(dueAt, at));
      if (dueAt > at) return false;
      fireDue();
      await settle();
    }
    return true;
  }

  return {
    now: () => now,
    monotonicMs: () => now - startAt,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const abort = () => {
          cancel();
          reject(signal?.reason);
        };
        const cancel = alarm(ms, () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        });
        if (signal?.aborted) abort();
        else signal?.addEventListener("abort", abort, { once: true });
      }),
    alarm,
    endOfTurn: (fn) => void alarm(0, fn),
    runUntilHolds,
    runUntil: async (at) => void (await runUntilHolds(() => false, at)),
  };
}

/** Node settles all promises before the next `setImmediate`. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
