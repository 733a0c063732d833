/**
 * Breaker: stops calling a destination that fails, and finds out with a few probes when it is
 * well again. It counts attempts. What a fleet must share is three columns, `state`, `openUntil`
 * and `openCount`: a node compares and sets them in a row and `adoptBreaker`s what it reads.
 *
 * Who enters gets a *pass*, the number of the breaker's generation, which changes with its state:
 * an outcome with an older pass began under another state and says nothing about this one.
 */
import { uniformInteger } from "../policy/jitter.ts";
import { steadyAt } from "../time/steady-time.ts";
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  clearWindow,
  countEvent,
  createWindow,
  totalOf,
  type WindowShape,
} from "./sliding-window.ts";

export interface BreakerOptions {
  /** Share of failed calls in the window that opens it. 0.01 to 1. Default: 0.5. */
  readonly failureRate: number;
  /** A call that takes longer is slow. 1 to 600 000 ms; undefined: no call is. Default: undefined. */
  readonly slowCallMs: number | undefined;
  /** Share of slow calls in the window that opens it. 0.01 to 1. Default: 1. */
  readonly slowRate: number;
  /** Span of the window, in tenths of which calls leave it. 100 to 3 600 000 ms. Default: 10 000. */
  readonly windowMs: number;
  /** With fewer calls in the window no rate opens it. 1 to 1 000 000. Default: 20. */
  readonly minCalls: number;
  /**
   * How long it stays open the first time, give or take a fifth, and never longer than `maxOpenMs`.
   * 1 to `maxOpenMs`. Default: 5000.
   */
  readonly openMs: number;
  /** Each re-opening doubles the span; none exceeds this. `openMs` to 86 400 000 ms. Default: 60 000. */
  readonly maxOpenMs: number;
  /** Calls let through at once while half open, and successes that close it. 1 to 10. Default: 1. */
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

/** `ignored`: the call said nothing about the destination's health (aborted, never left). */
export type BreakerOutcome = "success" | "failure" | "ignored";

/** What a fleet shares of a breaker. */
export interface BreakerColumns {
  /** OPEN means HALF_OPEN from `openUntil` on. */
  readonly state: BreakerState;
  /** Epoch ms; 0 while it has not been open yet. */
  readonly openUntil: number;
  /** Openings since it last closed. */
  readonly openCount: number;
}

export interface Breaker {
  readonly options: BreakerOptions;
  state: BreakerState;
  openUntil: number;
  openCount: number;
  /** From 1; one more with every change of state. */
  generation: number;
  /** Probes under way, and when the latest of them entered. */
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

/** Follows the clock. One that was set back takes the breaker's own instants along. */
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

/** Until when it lets nothing through; undefined unless it is open. */
export function openUntil(breaker: Breaker, now: number): number | undefined {
  return breakerState(breaker, now) === "OPEN" ? breaker.openUntil : undefined;
}

/** When entering is worth a try: at once, when it half opens, or when a silent probe is given up. */
export function breakerReadyAt(breaker: Breaker, now: number): number {
  const state = breakerState(breaker, now);
  if (state === "OPEN") return breaker.openUntil;
  if (state === "CLOSED" || breaker.state === "OPEN" || hasProbeSlot(breaker)) return now;
  return breaker.probeAt + spanMs(breaker.options, breaker.openCount);
}

/** Asks to make a call: a pass, or 0 when it is refused. A pass must be left with, exactly once. */
export function enterBreaker(breaker: Breaker, now: number): number {
  const state = breakerState(breaker, now);
  if (state === "CLOSED") return breaker.generation;
  if (state === "OPEN") return 0;
  if (breaker.state === "OPEN") changeState(breaker, "HALF_OPEN");
  if (!hasProbeSlot(breaker)) return 0;
  breaker.probes = probesUnderWay(breaker) + 1;
  breaker.probeAt = breaker.at;
  return breaker.generation;
}

function hasProbeSlot(breaker: Breaker): boolean {
  return probesUnderWay(breaker) < breaker.options.halfOpenProbes;
}

/**
 * Probes that have been silent for as long as a failed one would have kept the breaker open are
 * given up, or a lost one would keep it half open for ever. Should they still report, they count.
 */
function probesUnderWay({ options, probes, probeAt, openCount, at }: Breaker): number {
  return probes > 0 && at - probeAt >= spanMs(options, openCount) ? 0 : probes;
}

/**
 * A call that had a pass ended. `draw` gives a number in [0, 1) that spreads the open span; it is
 * called only if the breaker opens. True if the breaker is closed and holds nothing bad: further
 * successes at this instant then change no state.
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

/** Counts so many successes more, at the instant of a `leaveBreaker` that was true. */
export function countSuccesses({ window }: Breaker, calls: number): void {
  countEvent(window, CALLS, calls);
}

/** One bad probe re-opens, `halfOpenProbes` good ones close. Slow is bad: it would trip again. */
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
  // No rate is below 0.01: where nothing failed there is nothing to work out.
  const isWell = totalOf(window, FAILURES) === 0 && totalOf(window, SLOW) === 0;
  if (!isWell && isTripped(breaker)) open(breaker, draw);
  return isWell;
}

function isTripped({ options, window }: Breaker): boolean {
  const calls = totalOf(window, CALLS);
  if (calls < options.minCalls) return false;
  // Divided, not multiplied: 7 of 100 is then exactly the 0.07 that a document says.
  const failing = totalOf(window, FAILURES) / calls >= options.failureRate;
  return failing || totalOf(window, SLOW) / calls >= options.slowRate;
}

function open(breaker: Breaker, draw: () => number): void {
  changeState(breaker, "OPEN");
  breaker.openCount++;
  const middleMs = spanMs(breaker.options, breaker.openCount);
  const spreadMs = Math.floor(middleMs * OPEN_JITTER);
  const topMs = Math.min(middleMs + spreadMs, breaker.options.maxOpenMs);
  breaker.openUntil = breaker.at + uniformInteger(middleMs - spreadMs, topMs, draw());
}

/** What was counted and who was let in belong to the state that ends. */
function changeState(breaker: Breaker, state: BreakerState): void {
  breaker.state = state;
  breaker.generation++;
  breaker.probes = 0;
  breaker.successes = 0;
  clearWindow(breaker.window);
}

/**
 * The open span before jitter. A doubled span is capped so that its jitter ends at `maxOpenMs`. The
 * first is always `openMs`: where less than a fifth is left above it, `open` draws from less.
 */
function spanMs({ openMs, maxOpenMs }: BreakerOptions, openCount: number): number {
  const ceilingMs = Math.max(openMs, maxOpenMs / (1 + OPEN_JITTER));
  let span = openMs;
  for (let n = 1; n < openCount && span < ceilingMs; n++) span *= 2;
  return Math.max(1, Math.floor(Math.min(span, ceilingMs)));
}

/** Takes over what another node wrote, unless it is what this one has. */
export function adoptBreaker(breaker: Breaker, now: number, columns: BreakerColumns): void {
  follow(breaker, now);
  const { state, openUntil, openCount } = columns;
  const same = state === breaker.state && openUntil === breaker.openUntil;
  if (same && openCount === breaker.openCount) return;
  changeState(breaker, state);
  breaker.openUntil = openUntil;
  breaker.openCount = openCount;
}
