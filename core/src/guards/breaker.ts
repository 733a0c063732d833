/**
 * Breaker: stops calling a destination that fails, and probes it until it recovers. It counts attempts.
 * Nodes share three columns, `state`, `openUntil` and `openCount`: a node compares and sets them in a
 * row, and `adoptBreaker` takes over what it reads.
 *
 * A call that enters gets a *pass*, the number of the breaker's generation, which changes with its
 * state. An outcome with an older pass started in another state and says nothing about this one.
 */

import { uniformInteger } from "../decide/jitter.ts";
import {
  choiceRule,
  countRule,
  instantRule,
  numberRule,
  partRule,
  readSavedState,
  versionRule,
} from "../documents/document.ts";
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  clearWindow,
  countEvent,
  createWindow,
  restoreWindow,
  type SavedWindow,
  saveWindow,
  steadyAt,
  totalOf,
  type WindowShape,
} from "./sliding-window.ts";

export interface BreakerOptions {
  /** Share of failed calls in the window that opens it. 0.01 to 1. Default: 0.5. */
  readonly failureRate: number;
  /** A call that takes longer is slow. 1 to 600 000 ms; undefined: no call is slow. Default: undefined. */
  readonly slowCallMs: number | undefined;
  /** Share of slow calls in the window that opens it. 0.01 to 1. Default: 1. */
  readonly slowRate: number;
  /** Length of the window; calls leave it in tenths. 100 to 3 600 000 ms. Default: 10 000. */
  readonly windowMs: number;
  /** With fewer calls in the window it does not open. 1 to 1 000 000. Default: 20. */
  readonly minCalls: number;
  /**
   * Duration of the first opening, plus or minus a fifth, and never longer than `maxOpenMs`.
   * 1 to `maxOpenMs`. Default: 5000.
   */
  readonly openMs: number;
  /** Each re-opening doubles the duration, up to this. `openMs` to 86 400 000 ms. Default: 60 000. */
  readonly maxOpenMs: number;
  /** Concurrent calls while half open, and successes that close it. 1 to 10. Default: 1. */
  readonly halfOpenProbes: number;
}

export const BREAKER_DEFAULTS: BreakerOptions = {
  failureRate: 0.5,
  slowCallMs: undefined,
  slowRate: 1,
  windowMs: 10_000,
  minCalls: 20,
  openMs: 5000,
  maxOpenMs: 60_000,
  halfOpenProbes: 1,
};

export type BreakerState = "CLOSED" | "OPEN" | "HALF_OPEN";

/** `ignored`: the call says nothing about the destination's health (aborted, never sent). */
export type BreakerOutcome = "success" | "failure" | "ignored";

/** The columns that nodes share. */
interface BreakerColumns {
  /** OPEN means HALF_OPEN from `openUntil` on. */
  readonly state: BreakerState;
  /** Epoch ms; 0 if it has never been open. */
  readonly openUntil: number;
  /** Openings since it last closed. */
  readonly openCount: number;
}

export interface Breaker {
  readonly options: BreakerOptions;
  state: BreakerState;
  openUntil: number;
  openCount: number;
  /** Starts at 1; grows by one with every change of state. */
  generation: number;
  /** Probes in flight, and when the latest of them entered. */
  probes: number;
  probeAt: number;
  /** Probes of this generation that succeeded. */
  successes: number;
  /** The latest instant seen. */
  at: number;
  readonly window: CountWindow;
}

const CALLS = 0;
const FAILURES = 1;
const SLOW = 2;

/** Spreads the probes of many clients that opened at one instant. */
const OPEN_JITTER = 0.2;

function shapeOf({ windowMs }: BreakerOptions): WindowShape {
  return { windowMs, slots: BUCKETS_PER_WINDOW, kinds: 3 };
}

export function createBreaker(options: BreakerOptions, now: number): Breaker {
  return {
    options,
    state: "CLOSED",
    openUntil: 0,
    openCount: 0,
    generation: 1,
    probes: 0,
    probeAt: 0,
    successes: 0,
    at: now,
    window: createWindow(shapeOf(options), now),
  };
}

/** Follows the clock. If the clock was set back, the breaker's own instants move with it. */
function follow(breaker: Breaker, now: number): void {
  const at = steadyAt(breaker.at, now);
  const backMs = breaker.at - at;
  if (backMs > 0) {
    breaker.openUntil = Math.max(0, breaker.openUntil - backMs);
    breaker.probeAt = Math.max(0, breaker.probeAt - backMs);
  }
  breaker.at = at;
}

export function breakerState(breaker: Breaker, now: number): BreakerState {
  if (now !== breaker.at) follow(breaker, now);
  return breaker.state === "OPEN" && breaker.at >= breaker.openUntil ? "HALF_OPEN" : breaker.state;
}

/** Until when it refuses calls; undefined unless it is open. */
export function openUntil(breaker: Breaker, now: number): number | undefined {
  return breakerState(breaker, now) === "OPEN" ? breaker.openUntil : undefined;
}

/** When to try to enter: at once, when it becomes half open, or when a lost probe is given up. */
export function breakerReadyAt(breaker: Breaker, now: number): number {
  const state = breakerState(breaker, now);
  if (state === "OPEN") return breaker.openUntil;
  if (state === "CLOSED" || breaker.state === "OPEN" || hasProbeSlot(breaker)) return now;
  return breaker.probeAt + openDurationMs(breaker.options, breaker.openCount);
}

/** Requests a pass; 0 if the call is refused. Each pass must be left with exactly once. */
export function enterBreaker(breaker: Breaker, now: number): number {
  const state = breakerState(breaker, now);
  if (state === "CLOSED") return breaker.generation;
  if (state === "OPEN") return 0;
  if (breaker.state === "OPEN") changeState(breaker, "HALF_OPEN");
  if (!hasProbeSlot(breaker)) return 0;
  breaker.probes = probesInFlight(breaker) + 1;
  breaker.probeAt = breaker.at;
  return breaker.generation;
}

function hasProbeSlot(breaker: Breaker): boolean {
  return probesInFlight(breaker) < breaker.options.halfOpenProbes;
}

/**
 * Gives up probes that have not ended for as long as a failed probe would have kept the breaker open.
 * Otherwise a lost probe would keep it half open forever. A late result of such a probe still counts.
 */
function probesInFlight({ options, probes, probeAt, openCount, at }: Breaker): number {
  return probes > 0 && at - probeAt >= openDurationMs(options, openCount) ? 0 : probes;
}

/**
 * A call with a pass ended. `draw` gives a number in [0, 1) that spreads the open duration; it is
 * called only if the breaker opens. True if the breaker is closed and its window has no failure:
 * further successes at this instant then change no state.
 */
export function leaveBreaker(
  breaker: Breaker,
  now: number,
  pass: number,
  outcome: BreakerOutcome,
  durationMs: number,
  draw: () => number,
): boolean {
  if (now !== breaker.at) follow(breaker, now);
  if (pass !== breaker.generation) return false;
  const { slowCallMs } = breaker.options;
  const slow = slowCallMs !== undefined && durationMs > slowCallMs;
  if (breaker.state === "HALF_OPEN") leaveProbe(breaker, outcome, slow, draw);
  else if (outcome !== "ignored") return countCall(breaker, outcome === "failure", slow, draw);
  return false;
}

/** Counts further successes, at the instant of a `leaveBreaker` that returned true. */
export function countSuccesses({ window }: Breaker, calls: number): void {
  countEvent(window, CALLS, calls);
}

/** One bad probe re-opens it, and `halfOpenProbes` good ones close it. Slow counts as bad: it would open again. */
function leaveProbe(
  breaker: Breaker,
  outcome: BreakerOutcome,
  slow: boolean,
  draw: () => number,
): void {
  breaker.probes = Math.max(0, breaker.probes - 1);
  if (outcome === "ignored") return;
  if (outcome === "failure" || slow) {
    open(breaker, draw);
    return;
  }
  breaker.successes++;
  if (breaker.successes < breaker.options.halfOpenProbes) return;
  changeState(breaker, "CLOSED");
  breaker.openCount = 0;
}

function countCall(breaker: Breaker, failed: boolean, slow: boolean, draw: () => number): boolean {
  const { window } = breaker;
  advanceWindow(window, breaker.at);
  countEvent(window, CALLS);
  if (failed) countEvent(window, FAILURES);
  if (slow) countEvent(window, SLOW);
  // No rate is below 0.01: without a failure there is nothing to compute.
  const failures = totalOf(window, FAILURES);
  const slowCalls = totalOf(window, SLOW);
  const hasNoFailures = failures + slowCalls === 0;
  if (!hasNoFailures && reachesLimits(breaker, totalOf(window, CALLS), failures, slowCalls)) {
    open(breaker, draw);
  }
  return hasNoFailures;
}

/** The counts as numbers: an object would be made for each failed call, and costs the gzipped library 70 bytes. */
function reachesLimits(
  { options }: Breaker,
  calls: number,
  failures: number,
  slowCalls: number,
): boolean {
  if (calls < options.minCalls) return false;
  // Divided, not multiplied: 7 of 100 is then exactly the 0.07 of a document.
  return failures / calls >= options.failureRate || slowCalls / calls >= options.slowRate;
}

/** The calls in the window of a breaker. */
export interface CallCounts {
  readonly calls: number;
  readonly failures: number;
  readonly slowCalls: number;
}

export function callCounts({ window }: Breaker, now: number): CallCounts {
  advanceWindow(window, now);
  return {
    calls: totalOf(window, CALLS),
    failures: totalOf(window, FAILURES),
    slowCalls: totalOf(window, SLOW),
  };
}

/** Opens a closed breaker if its own calls, together with those of other nodes, reach its limits. */
export function tripTogether(
  breaker: Breaker,
  now: number,
  others: CallCounts,
  draw: () => number,
): void {
  if (breakerState(breaker, now) !== "CLOSED") return;
  const own = callCounts(breaker, breaker.at);
  const calls = own.calls + others.calls;
  const failures = own.failures + others.failures;
  const slowCalls = own.slowCalls + others.slowCalls;
  if (reachesLimits(breaker, calls, failures, slowCalls)) open(breaker, draw);
}

function open(breaker: Breaker, draw: () => number): void {
  changeState(breaker, "OPEN");
  breaker.openCount++;
  const middleMs = openDurationMs(breaker.options, breaker.openCount);
  const spreadMs = Math.floor(middleMs * OPEN_JITTER);
  const topMs = Math.min(middleMs + spreadMs, breaker.options.maxOpenMs);
  breaker.openUntil = breaker.at + uniformInteger(middleMs - spreadMs, topMs, draw());
}

/** Counts and passes belong to the state that ends. */
function changeState(breaker: Breaker, state: BreakerState): void {
  breaker.state = state;
  breaker.generation++;
  breaker.probes = 0;
  breaker.successes = 0;
  clearWindow(breaker.window);
}

/**
 * The open duration before jitter. A doubled duration is capped so its jitter ends at `maxOpenMs`. The
 * first one is always `openMs`: if less than a fifth is left above it, `open` uses a smaller jitter.
 */
function openDurationMs({ openMs, maxOpenMs }: BreakerOptions, openCount: number): number {
  const ceilingMs = Math.max(openMs, maxOpenMs / (1 + OPEN_JITTER));
  let durationMs = openMs;
  for (let n = 1; n < openCount && durationMs < ceilingMs; n++) durationMs *= 2;
  return Math.max(1, Math.floor(Math.min(durationMs, ceilingMs)));
}

/** Takes over the columns that another node wrote, unless they are equal. */
export function adoptBreaker(breaker: Breaker, now: number, columns: BreakerColumns): void {
  follow(breaker, now);
  const { state, openUntil, openCount } = columns;
  const same = state === breaker.state && openUntil === breaker.openUntil;
  if (same && openCount === breaker.openCount) return;
  changeState(breaker, state);
  breaker.openUntil = openUntil;
  breaker.openCount = openCount;
}

/** A breaker as JSON. All instants are absolute, so it has the state that it would have reached by now. */
export interface SavedBreaker {
  readonly version: 1;
  readonly state: BreakerState;
  readonly openUntil: number;
  readonly openCount: number;
  readonly generation: number;
  readonly probes: number;
  readonly probeAt: number;
  readonly successes: number;
  readonly at: number;
  readonly window: SavedWindow;
}

export function saveBreaker(breaker: Breaker): SavedBreaker {
  const { options, window, ...columns } = breaker;
  return { version: 1, ...columns, window: saveWindow(window) };
}

export function restoreBreaker(options: BreakerOptions, value: unknown, now: number): Breaker {
  const { version, window, ...columns } = readSavedState<SavedBreaker>("breaker", value, {
    version: versionRule,
    state: choiceRule("CLOSED", "OPEN", "HALF_OPEN"),
    openUntil: instantRule,
    openCount: countRule,
    generation: numberRule(1, Number.MAX_SAFE_INTEGER),
    probes: countRule,
    probeAt: instantRule,
    successes: countRule,
    at: instantRule,
    window: partRule,
  });
  const fresh = createBreaker(options, now);
  const { shape } = fresh.window;
  return { ...fresh, ...columns, window: restoreWindow("breaker.window", shape, window, now) };
}
