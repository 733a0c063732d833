/**
 * Ticker: enforces timeouts without a timer per call. Attempts that outlive the turn in which they
 * began are listed by the size of their timeout, and one coarse alarm per list looks through it. A
 * timeout runs from the end of that turn: none ends early, and none later than by the turn and a
 * sixteenth of its length.
 */
import type { Cancel, TimeSource } from "@redrive/core";
import { Turn } from "./turn.ts";

/** Something that may run out of time. */
export interface Timed {
  readonly timeoutMs: number;
  expire(): void;
  /** The ticker's own: when it expires on the monotonic clock, and its lane; set when its turn ends. */
  expiresMs: number | undefined;
  lane: Lane | undefined;
  /** Where it is among those of its lane, or of its turn. */
  place: number;
}

/** Timeouts of 2^n to 2^(n+1) ms, looked through every 2^n / 16. */
export interface Lane {
  readonly intervalMs: number;
  readonly timed: Timed[];
  cancel: Cancel | undefined;
}

export class Ticker {
  readonly turn: Turn;
  readonly #clock: TimeSource;
  /** What began in this turn and has not ended; its first `begun` count. Most ends in its turn. */
  #fresh: Timed[] = [];
  #begun = 0;
  readonly #lanes: (Lane | undefined)[] = [];

  constructor(clock: TimeSource) {
    this.#clock = clock;
    this.turn = new Turn(clock, (nowMs) => this.#endTurn(nowMs));
  }

  /** Whoever adds has asked the turn for its time, so that its end is awaited. */
  add(timed: Timed): void {
    timed.place = this.#begun;
    this.#fresh[this.#begun++] = timed;
  }

  remove(timed: Timed): void {
    const { lane } = timed;
    if (lane === undefined) takePlace(this.#fresh, timed, this.#fresh[--this.#begun]);
    else if (takePlace(lane.timed, timed, lane.timed.pop()) === 0) {
      lane.cancel?.();
      lane.cancel = undefined;
    }
  }

  #laneOf(timeoutMs: number): Lane {
    const size = 31 - Math.clz32(timeoutMs);
    const intervalMs = Math.max(1, 2 ** size / 16);
    const lane = this.#lanes[size] ?? { intervalMs, timed: [], cancel: undefined };
    this.#lanes[size] = lane;
    return lane;
  }

  #arm(lane: Lane): void {
    lane.cancel ??= this.#clock.alarm(lane.intervalMs, () => this.#tick(lane));
  }

  /** From the last to the first, since what expires is removed, and may take others along. */
  #tick(lane: Lane): void {
    lane.cancel = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (let place = lane.timed.length - 1; place >= 0; place--) {
      const timed = lane.timed[place];
      if (timed?.expiresMs !== undefined && nowMs >= timed.expiresMs) timed.expire();
    }
    if (lane.timed.length > 0) this.#arm(lane);
  }

  /** What outlives its turn starts its timeout now, and keeps the process alive until then. */
  #endTurn(nowMs: number): void {
    for (const timed of this.#fresh.slice(0, this.#begun)) {
      const lane = this.#laneOf(timed.timeoutMs);
      timed.expiresMs = nowMs + timed.timeoutMs;
      timed.lane = lane;
      timed.place = lane.timed.push(timed) - 1;
      this.#arm(lane);
    }
    this.#begun = 0;
    this.#fresh = [];
  }
}

/** One leaves a list, and the last of it takes its place. Returns how long the list is then. */
function takePlace(list: Timed[], { place }: Timed, last: Timed | undefined): number {
  if (last !== undefined && last.place !== place) {
    list[place] = last;
    last.place = place;
  }
  return list.length;
}

const tickers = new WeakMap<TimeSource, Ticker>();

/** The ticker that all calls on one clock share. */
export function tickerOf(clock: TimeSource): Ticker {
  let ticker = tickers.get(clock);
  if (ticker === undefined) {
    ticker = new Ticker(clock);
    tickers.set(clock, ticker);
  }
  return ticker;
}
