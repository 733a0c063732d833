/**
 * Virtual: a clock that tests move by hand, and random numbers from a seed. Tests, the simulator and
 * the simulation of the service use them: the same seed gives the same instants in every engine.
 */
import { assertRange } from "../documents/errors.ts";
import { type Cancel, type Clock, type Random, sleepOn } from "./clock.ts";

interface Alarm {
  readonly at: number;
  readonly sequence: number;
  readonly fn: () => void;
}

export interface VirtualClock extends Clock {
  /** Advances by `ms`, fires due alarms in order and lets promises run in between. */
  advance(ms: number): Promise<void>;

  /** Advances to the next alarm and fires it. False if none is set. */
  step(): Promise<boolean>;

  /** Fires alarms until `done` settles; throws if it can never settle. */
  run<T>(done: Promise<T>): Promise<T>;

  /** When the next alarm fires, or undefined. */
  nextAt(): number | undefined;

  /** How many alarms are set. A test can check that none is left. */
  pending(): number;
}

/** Enough microtask turns for any chain of awaits between two alarms. */
const TURNS_PER_STEP = 64;

/** A clock that moves only when it is advanced. `startAt` is epoch ms; default 0. */
export function virtualClock(startAt = 0): VirtualClock {
  assertRange("startAt", startAt, 0, Number.MAX_SAFE_INTEGER);
  const alarms: Alarm[] = [];
  let now = startAt;
  let sequence = 0;

  function alarm(ms: number, fn: () => void): Cancel {
    const entry: Alarm = { at: now + Math.max(0, Math.ceil(ms)), sequence: sequence++, fn };
    insert(alarms, entry);
    return () => {
      const index = alarms.indexOf(entry);
      if (index >= 0) alarms.splice(index, 1);
    };
  }

  function fireNext(): boolean {
    const next = alarms.shift();
    if (next === undefined) return false;
    now = Math.max(now, next.at);
    next.fn();
    return true;
  }

  async function step(): Promise<boolean> {
    await settlePromises();
    const fired = fireNext();
    await settlePromises();
    return fired;
  }

  async function advance(ms: number): Promise<void> {
    const endAt = now + ms;
    await settlePromises();
    while ((alarms[0]?.at ?? Number.POSITIVE_INFINITY) <= endAt) {
      fireNext();
      await settlePromises();
    }
    now = Math.max(now, endAt);
  }

  async function run<T>(done: Promise<T>): Promise<T> {
    let settled = false;
    const mark = () => {
      settled = true;
    };
    done.then(mark, mark);
    await settlePromises();
    while (!settled) {
      if (!(await step()) && !settled) throw new Error("virtual clock: nothing left to wait for");
    }
    return done;
  }

  return {
    now: () => now,
    monotonicMs: () => now - startAt,
    sleep: (ms, signal) => sleepOn(alarm, ms, signal),
    alarm,
    endOfTurn: (fn) => void alarm(0, fn),
    advance,
    step,
    run,
    nextAt: () => alarms[0]?.at,
    pending: () => alarms.length,
  };
}

/** Keeps alarms ordered by time, and by insertion for equal times. */
function insert(alarms: Alarm[], entry: Alarm): void {
  let index = alarms.length;
  while (index > 0 && (alarms[index - 1]?.at ?? 0) > entry.at) index--;
  alarms.splice(index, 0, entry);
}

async function settlePromises(): Promise<void> {
  for (let turn = 0; turn < TURNS_PER_STEP; turn++) await undefined;
}

/** Random numbers from a seed (sfc32, Chris Doty-Humphrey's PractRand): fast, 128 bits of state. */
export function seededRandom(seed: number | string): Random {
  return streamOf(String(seed));
}

function streamOf(name: string): Random {
  const hash = hashText(name);
  let a = hash(0);
  let b = hash(1);
  let c = hash(2);
  let counter = 1;
  function nextUint32(): number {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return sum >>> 0;
  }
  // The first outputs still resemble the seed. The author recommends discarding twelve.
  for (let i = 0; i < 12; i++) nextUint32();
  return {
    // 53 bits, so a duration of 365 days in ms has no gaps.
    next: () => ((nextUint32() >>> 5) * 67_108_864 + (nextUint32() >>> 6)) / 9_007_199_254_740_992,
    fork: (child) => streamOf(`${name}/${child}`),
  };
}

/** MurmurHash3's mixing over UTF-16 units, salted. Names that differ by one letter diverge at once. */
function hashText(text: string): (salt: number) => number {
  return (salt) => {
    let hash = 0x9e3779b9 ^ Math.imul(salt, 0x85ebca6b) ^ text.length;
    for (let i = 0; i < text.length; i++) {
      hash = Math.imul(hash ^ text.charCodeAt(i), 0xcc9e2d51);
      hash = (hash << 13) | (hash >>> 19);
    }
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return hash ^ (hash >>> 16);
  };
}
