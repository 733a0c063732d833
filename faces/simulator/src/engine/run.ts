/**
 * Run: what a run has in every engine: bounds on its size, and observers of its progress and of its
 * events. A mistyped scenario ends with an error message instead of using up the memory.
 */
import { RedriveError } from "@redrive/core";

/**
 * Calls, requests or pending events at one time. At this bound the arrays use a little over 1 GB.
 */
const MAX_ROWS = 8_388_608;

/**
 * Events in one run: enough for an hour of 10 000 calls a second, which takes minutes to simulate.
 */
export const MAX_EVENTS = 400_000_000;

/** Throws `INVALID_ARGUMENT` if `count` is larger than `max`. */
export function assertAtMost(count: number, max: number, what: string): void {
  if (count <= max) return;
  throw new RedriveError("INVALID_ARGUMENT", `the scenario has over ${max} ${what}`);
}

/** Copies an array to one of twice the length. */
export function doubleLength<T extends Int32Array | Float64Array>(column: T): T {
  const { length } = column;
  assertAtMost(2 * length, MAX_ROWS, "calls or events at once");
  const larger = new (column.constructor as new (length: number) => T)(2 * length);
  larger.set(column);
  return larger;
}

/** Receives the share of the run that is done, 0 to 1. */
export type OnProgress = (share: number) => void;

/** Observers of a run. They do not change its result. */
export interface RunObserver {
  readonly trace?: Trace | undefined;
  readonly onProgress?: OnProgress | undefined;
}

/**
 * A power of two, so the check costs one comparison. This many events take at most a tenth of a
 * second.
 */
const EVENTS_BETWEEN = 131_072;

/** True for the events at which progress is reported. */
export function isProgressDue(events: number): boolean {
  return (events & (EVENTS_BETWEEN - 1)) === EVENTS_BETWEEN - 1;
}

// Trace: a 32-bit hash over all events of a run. Equal hashes show that two engines made the same
// run. Uses MurmurHash3's mixing over the bytes of each number.

export interface Trace {
  /** Adds one event to the hash. */
  add(at: number, kind: number, subject: number): void;

  /** Eight hexadecimal digits. */
  hash(): string;
}

export function createTrace(): Trace {
  const state = new Int32Array([0x9e3779b9, 0]);
  const number = new Float64Array(1);
  const words = new Int32Array(number.buffer);

  function mix(word: number): void {
    let block = Math.imul(word, 0xcc9e2d51);
    block = (block << 15) | (block >>> 17);
    let hash = (state[0] as number) ^ Math.imul(block, 0x1b873593);
    hash = (hash << 13) | (hash >>> 19);
    state[0] = Math.imul(hash, 5) + 0xe6546b64;
    state[1] = (state[1] as number) + 1;
  }

  return {
    add(at, kind, subject) {
      number[0] = at;
      mix(words[0] as number);
      mix(words[1] as number);
      mix(kind);
      mix(subject);
    },
    hash: () => finish((state[0] as number) ^ (state[1] as number)),
  };
}

function finish(state: number): string {
  let hash = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0).toString(16).padStart(8, "0");
}
