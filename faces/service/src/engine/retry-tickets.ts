/**
 * Retry tickets: what a retry draws on, the budget of its destination and the one of the whole
 * service, both or neither. The second keeps many destinations that fail at once from turning the
 * service into a source of nothing but retries.
 */
import {
  budgetAllows,
  budgetRefillAt,
  giveBack,
  noteFailure,
  noteFirst,
  noteSuccess,
  type RetryBudget,
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
  takeRetry,
} from "@redrive/core";
import { budgetOf } from "./saved-guards.ts";

/** One of each budget that is on; 0 from one that is off or gave none. */
export interface Tickets {
  readonly own: number;
  readonly whole: number;
  /** The destination's budget that gave it: another one, under a later document, knows nothing of it. */
  readonly of: RetryBudget | undefined;
}

export const NO_TICKETS: Tickets = { own: 0, whole: 0, of: undefined };

/**
 * The service's own budget, unless told otherwise. Wider than a destination's, so that it bites
 * when many of them fail and not when one does: a fifth of the first attempts, and 100 a second.
 */
const WHOLE_DEFAULTS = { ratio: 0.2, minPerSecond: 100 } as const;

/** Throws `INVALID_DESTINATION` with what is wrong; undefined: off. */
export function wholeBudgetOptions(
  document: RetryBudgetDocument | false = {},
): RetryBudgetOptions | undefined {
  const isRatio = document !== false && (document.kind ?? "RATIO") === "RATIO";
  const retryBudget = isRatio ? { ...WHOLE_DEFAULTS, ...document } : document;
  return resolveDestination({ retryBudget } as object, "service").retryBudget;
}

/** `text`: what an earlier process wrote down of it. Default: nothing. */
export function createWholeBudget(
  options: RetryBudgetOptions | undefined,
  now: number,
  text?: string,
): RetryBudget | undefined {
  return options && budgetOf(options, text, now);
}

/**
 * A bucket is filled by successes only: empty, at a destination that gets no first attempts, it would
 * keep its retries for ever. So often one leaves without a ticket, and finds out.
 */
const FIND_OUT_MS = 1000;

/** Both budgets, asked as one. `own` may be replaced when the destination's document changes. */
export class RetryBudgets {
  own: RetryBudget | undefined;
  readonly whole: RetryBudget | undefined;
  /** When a retry last left to find out. */
  #foundOutAt = Number.NEGATIVE_INFINITY;

  constructor(own: RetryBudget | undefined, whole: RetryBudget | undefined) {
    this.own = own;
    this.whole = whole;
  }

  /** `now` if a retry could be drawn for; otherwise when asking again is worthwhile. */
  readyAt(now: number, throttled: boolean): number {
    return Math.max(this.#ownReadyAt(now, throttled), readyAt(this.whole, now, throttled));
  }

  #ownReadyAt(now: number, throttled: boolean): number {
    const at = readyAt(this.own, now, throttled);
    if (at <= now || this.own?.kind === "RATIO") return at;
    return Math.max(now, this.#foundOutAt + FIND_OUT_MS);
  }

  noteFirst(now: number): void {
    if (this.own) noteFirst(this.own, now);
    if (this.whole) noteFirst(this.whole, now);
  }

  /** Undefined if either gives none; then nothing is taken. */
  take(now: number, throttled: boolean): Tickets | undefined {
    if (this.readyAt(now, throttled) > now) return undefined;
    const own = this.own ? takeRetry(this.own, now, throttled) : 0;
    if (this.own && own === 0) this.#foundOutAt = now;
    const whole = this.whole ? takeRetry(this.whole, now, throttled) : 0;
    return { own, whole, of: this.own };
  }

  giveBack({ own, whole, of }: Tickets): void {
    if (this.own && of === this.own) giveBack(this.own, own);
    // It found nothing out: another may.
    if (of !== undefined && own === 0) this.#foundOutAt = Number.NEGATIVE_INFINITY;
    if (this.whole) giveBack(this.whole, whole);
  }

  /** Of a first attempt, which has no tickets, or of a retry. */
  noteSuccess({ own, whole, of }: Tickets): void {
    if (this.own && (of === undefined || of === this.own)) noteSuccess(this.own, own, true);
    if (this.whole) noteSuccess(this.whole, whole, true);
  }

  noteFailure(): void {
    if (this.own) noteFailure(this.own);
    if (this.whole) noteFailure(this.whole);
  }
}

function readyAt(budget: RetryBudget | undefined, now: number, throttled: boolean): number {
  if (budget === undefined || budgetAllows(budget, now, throttled)) return now;
  return budgetRefillAt(budget, now);
}
