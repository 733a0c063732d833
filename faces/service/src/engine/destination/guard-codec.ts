/**
 * Saved guards: what the guards of a destination have learnt as a text, and back. Its circuit is not
 * in it: that is the fleet's, and stands in the destination's row.
 */
import {
  createGuards,
  createRetryBudget,
  type GuardOptions,
  type Guards,
  type RetryBudget,
  type RetryBudgetOptions,
  restoreGuards,
  restoreRetryBudget,
  type SavedGuards,
  saveGuards,
  saveRetryBudget,
} from "@redrive/core";

/** The histogram is nearly all zeroes: a bucket's number and its count, one after the other. */
interface Packed {
  readonly size: number;
  readonly filled: readonly number[];
}

export function encodeGuards(guards: Guards): string {
  const { latency, ...saved } = saveGuards(guards);
  const packed = latency && { ...latency, counts: pack(latency.counts) };
  return JSON.stringify({ ...saved, latency: packed, breaker: null });
}

/** Guards as they were; fresh ones if the text cannot be read, because no note may stop a start. */
export function decodeGuards(options: GuardOptions, text: string, now: number): Guards {
  try {
    const { latency, ...saved } = JSON.parse(text);
    const unpacked = latency && { ...latency, counts: unpack(latency.counts) };
    return restoreGuards(options, { ...saved, latency: unpacked } satisfies SavedGuards, now);
  } catch {
    return createGuards(options, now);
  }
}

export function encodeBudget(budget: RetryBudget): string {
  return JSON.stringify(saveRetryBudget(budget));
}

/** A budget as it was; a full one without a text, or with one that cannot be read. */
export function decodeBudget(
  options: RetryBudgetOptions,
  text: string | undefined,
  now: number,
): RetryBudget {
  if (text === undefined) return createRetryBudget(options, now);
  try {
    return restoreRetryBudget(options, JSON.parse(text), now);
  } catch {
    return createRetryBudget(options, now);
  }
}

function pack(counts: readonly number[]): Packed {
  const filled = counts.flatMap((count, index) => (count > 0 ? [index, count] : []));
  return { size: counts.length, filled };
}

/** Whether the size is right is the histogram's to say. */
function unpack({ size, filled }: Packed): readonly number[] {
  const counts = new Array<number>(Math.min(size, MAX_SIZE)).fill(0);
  for (let at = 0; at + 1 < filled.length; at += 2) counts[filled[at] ?? 0] = filled[at + 1] ?? 0;
  return counts;
}

/** A note that claims more is not one of ours. */
const MAX_SIZE = 4096;
