/**
 * Guard codec: writes the state of a destination's guards as text, and reads it back. The text does
 * not contain the circuit, which all nodes share in the destination's row.
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

/** Most counts of the histogram are zero, so only pairs of bucket number and count are stored. */
interface PackedCounts {
  readonly size: number;
  readonly filled: readonly number[];
}

/** A text with a larger size was not written by this file. */
const MAX_SIZE = 4096;

export function encodeGuards(guards: Guards): string {
  const { latency, ...saved } = saveGuards(guards);
  const packed = latency && {
    ...latency,
    counts: pack(latency.counts),
    unfinished: pack(latency.unfinished),
  };
  return JSON.stringify({ ...saved, latency: packed, breaker: null });
}

/** The saved guards. New guards if the text is unreadable, so that it cannot prevent a start. */
export function decodeGuards(options: GuardOptions, text: string, now: number): Guards {
  try {
    const { latency, ...saved } = JSON.parse(text);
    const unpacked = latency && {
      ...latency,
      counts: unpack(latency.counts),
      // Texts of older versions do not have it.
      unfinished: latency.unfinished ? unpack(latency.unfinished) : [],
    };
    return restoreGuards(options, { ...saved, latency: unpacked } satisfies SavedGuards, now);
  } catch {
    return createGuards(options, now);
  }
}

export function encodeBudget(budget: RetryBudget): string {
  return JSON.stringify(saveRetryBudget(budget));
}

/** The saved budget. A full budget if there is no text or the text is unreadable. */
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

function pack(counts: readonly number[]): PackedCounts {
  // A histogram has hundreds of buckets, most of them empty.
  const filled: number[] = [];
  for (let index = 0; index < counts.length; index++) {
    const count = counts[index] ?? 0;
    if (count > 0) filled.push(index, count);
  }
  return { size: counts.length, filled };
}

/** The histogram itself checks that the size is right. */
function unpack({ size, filled }: PackedCounts): readonly number[] {
  const counts = new Array<number>(Math.min(size, MAX_SIZE)).fill(0);
  for (let at = 0; at + 1 < filled.length; at += 2) counts[filled[at] ?? 0] = filled[at + 1] ?? 0;
  return counts;
}
