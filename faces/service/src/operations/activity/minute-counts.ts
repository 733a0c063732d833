/**
 * Minute counts: counts of the last sixty minutes, one per minute and measure, in a ring of fixed
 * size. The newest minute is the current one, so it is still growing.
 */

export const MINUTE_MS = 60_000;
export const MINUTES = 60;

/** Counts by measure, the oldest minute first. Every list has `MINUTES` entries. */
export type CountsOf<Measure extends string> = Readonly<Record<Measure, readonly number[]>>;

/** The number of the minute that contains an instant. */
export function minuteOf(at: number): number {
  return Math.floor(at / MINUTE_MS);
}

export class MinuteCounts<Measure extends string> {
  readonly #counts: ReadonlyMap<Measure, Float64Array>;
  /** The newest minute that was recorded. */
  #minute = Number.NEGATIVE_INFINITY;

  constructor(measures: readonly Measure[]) {
    this.#counts = new Map(measures.map((measure) => [measure, new Float64Array(MINUTES)]));
  }

  /** The newest minute with a count; -Infinity: there is none. */
  get minute(): number {
    return this.#minute;
  }

  add(at: number, measure: Measure, count = 1): void {
    const slot = this.#slotOf(at);
    const counts = this.#counts.get(measure);
    if (counts !== undefined && slot >= 0) counts[slot] = (counts[slot] as number) + count;
  }

  /** For a measure that is sampled: keeps the largest value of the minute. */
  raise(at: number, measure: Measure, value: number): void {
    const slot = this.#slotOf(at);
    const counts = this.#counts.get(measure);
    if (counts !== undefined && slot >= 0) counts[slot] = Math.max(counts[slot] as number, value);
  }

  /** The sixty minutes that end with the minute of `now`. */
  read(now: number): CountsOf<Measure> {
    const last = minuteOf(now);
    const lists: Partial<Record<Measure, readonly number[]>> = {};
    for (const [measure, counts] of this.#counts) {
      lists[measure] = Array.from({ length: MINUTES }, (_, index) => {
        const minute = last - MINUTES + 1 + index;
        return this.#isKept(minute) ? (counts[slotOfMinute(minute)] as number) : 0;
      });
    }
    return lists as CountsOf<Measure>;
  }

  /** The sum over the minutes that end with the minute of `now`. */
  sumOf(measure: Measure, now: number, minutes: number): number {
    const last = minuteOf(now);
    const counts = this.#counts.get(measure) ?? [];
    let sum = 0;
    for (let minute = last - minutes + 1; minute <= last; minute++) {
      if (this.#isKept(minute)) sum += counts[slotOfMinute(minute)] as number;
    }
    return sum;
  }

  #isKept(minute: number): boolean {
    return minute <= this.#minute && minute > this.#minute - MINUTES;
  }

  /** The slot of an instant, cleared if it is new; -1: the minute is no longer kept. */
  #slotOf(at: number): number {
    const minute = minuteOf(at);
    if (minute > this.#minute) this.#moveTo(minute);
    return minute > this.#minute - MINUTES ? slotOfMinute(minute) : -1;
  }

  #moveTo(minute: number): void {
    const from = Math.max(this.#minute + 1, minute - MINUTES + 1);
    for (let passed = from; passed <= minute; passed++) {
      for (const counts of this.#counts.values()) counts[slotOfMinute(passed)] = 0;
    }
    this.#minute = minute;
  }
}

/** Also for a clock before 1970. */
function slotOfMinute(minute: number): number {
  return ((minute % MINUTES) + MINUTES) % MINUTES;
}
