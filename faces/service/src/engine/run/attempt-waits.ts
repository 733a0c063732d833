/** Attempt waits: how long an attempt waited after it was due, and for which guards. */
import { type AttemptWait, MIN_WAIT_MS, NO_WAITS, type WaitCause } from "../../model/task.ts";
import type { Hold } from "../destination/lane-hold.ts";

/** When an attempt was due, when it had its permit, and when it was sent. */
export interface AttemptTimes {
  readonly dueAt: number;
  readonly claimedAt: number;
  readonly startedAt: number;
}

/**
 * The waits of an attempt after it was due, oldest first. `hold`: the guards that held it. What no
 * guard explains is `late`.
 */
export function waitsOf(hold: Hold | undefined, times: AttemptTimes): readonly AttemptWait[] {
  const { dueAt, claimedAt, startedAt } = times;
  if (startedAt - dueAt < MIN_WAIT_MS) return NO_WAITS;
  const waits: AttemptWait[] = [];
  let endAt = startedAt;
  // From the latest to the earliest. Two neighbors with one cause are one wait.
  const add = (cause: WaitCause, from: number) => {
    const sinceAt = Math.max(dueAt, Math.min(from, endAt));
    if (sinceAt === endAt) return;
    const next = waits.at(-1)?.cause === cause ? waits.pop() : undefined;
    waits.push({ cause, sinceAt, durationMs: endAt - sinceAt + (next?.durationMs ?? 0) });
    endAt = sinceAt;
  };
  add("late", claimedAt);
  for (let one = hold; one !== undefined; one = one.before) add(one.by, one.since);
  add("late", dueAt);
  return waits.filter(({ durationMs }) => durationMs >= MIN_WAIT_MS).reverse();
}
