/**
 * Ticker: enforces timeouts without a timer per call. Attempts under way hang in lists by the size
 * of their timeout, newest first, and one coarse alarm per list looks through it. A timeout runs
 * from the end of the turn in which its attempt began: none ends early, and none later than by that
 * turn and a sixteenth of its length.
 */
import type { Cancel, Clock } from "@redrive/core";
import { Turn } from "./turn.ts";

/** Something that may run out of time. */
export interface Timed {
  readonly timeoutMs: number;
  expire(): void;
  /** The ticker's own: when it expires on the monotonic clock; undefined until its turn ends. */
  expiresMs: number | undefined;
  previous: Timed | undefined;
  next: Timed | undefined;
}

/** Timeouts of 2^n to 2^(n+1) ms, looked through every 2^n / 16. */
interface Lane {
  readonly intervalMs: number;
  first: Timed | undefined;
  cancel: Cancel | undefined;
}

export class Ticker {
  readonly turn: Turn;
  private readonly clock: Clock;
  private readonly lanes: (Lane | undefined)[] = [];
  private underWay = 0;
  /** Whether alarms keep the process alive. */
  private holding = false;

  constructor(clock: Clock) {
    this.clock = clock;
    this.turn = new Turn(clock, (nowMs) => this.endTurn(nowMs));
  }

  /** Whoever adds has asked the turn for its time, so that its end is awaited. */
  add(timed: Timed): void {
    const lane = this.laneOf(timed.timeoutMs);
    timed.next = lane.first;
    if (lane.first !== undefined) lane.first.previous = timed;
    lane.first = timed;
    if (lane.cancel === undefined) this.arm(lane);
    this.underWay++;
  }

  remove(timed: Timed): void {
    const { previous, next } = timed;
    if (previous !== undefined) previous.next = next;
    else this.laneOf(timed.timeoutMs).first = next;
    if (next !== undefined) next.previous = previous;
    if (--this.underWay === 0 && this.holding) this.rearm(false);
  }

  private laneOf(timeoutMs: number): Lane {
    const size = 31 - Math.clz32(timeoutMs);
    return this.lanes[size] ?? this.addLane(size);
  }

  private addLane(size: number): Lane {
    const lane = { intervalMs: Math.max(1, 2 ** size / 16), first: undefined, cancel: undefined };
    this.lanes[size] = lane;
    return lane;
  }

  private arm(lane: Lane): void {
    lane.cancel = this.clock.alarm(lane.intervalMs, () => this.tick(lane), !this.holding);
  }

  private tick(lane: Lane): void {
    lane.cancel = undefined;
    const nowMs = this.clock.monotonicMs();
    for (let timed = lane.first; timed !== undefined; ) {
      const { next, expiresMs } = timed;
      if (expiresMs !== undefined && nowMs >= expiresMs) timed.expire();
      timed = next;
    }
    if (lane.first !== undefined && lane.cancel === undefined) this.arm(lane);
  }

  /**
   * What outlives its turn starts its timeout now, and keeps the process alive until then; what
   * does not has cost next to nothing.
   */
  private endTurn(nowMs: number): void {
    for (const lane of this.lanes) {
      for (let timed = lane?.first; timed && timed.expiresMs === undefined; timed = timed.next) {
        timed.expiresMs = nowMs + timed.timeoutMs;
      }
    }
    if (this.underWay > 0 && !this.holding) this.rearm(true);
  }

  private rearm(holding: boolean): void {
    this.holding = holding;
    for (const lane of this.lanes) {
      lane?.cancel?.();
      if (lane === undefined) continue;
      lane.cancel = undefined;
      if (lane.first !== undefined) this.arm(lane);
    }
  }
}

const tickers = new WeakMap<Clock, Ticker>();

/** The ticker that all calls on one clock share. */
export function tickerOf(clock: Clock): Ticker {
  let ticker = tickers.get(clock);
  if (ticker === undefined) {
    ticker = new Ticker(clock);
    tickers.set(clock, ticker);
  }
  return ticker;
}
