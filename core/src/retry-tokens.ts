/**
 * Retry tokens: what attempts take from the retry budget of their destination and from the budget
 * of the whole service, both or neither. The second one keeps many destinations that fail at once
 * from turning a service into a source of nothing but retries.
 */
import {
  budgetReadyAt,
  countFirst,
  giveBack,
  noteFailure,
  noteSuccess,
  type RetryBudget,
  takeRetry,
  uncountFirst,
} from "./retry-budget.ts";

/** What one attempt holds: a ticket of each budget that is on, 0 from one that is off. */
export interface Tickets {
  ticket: number;
  wholeTicket: number;
  /** The budget that gave `ticket`. A budget that replaced it knows nothing of the ticket. */
  budget: RetryBudget | undefined;
}

export class RetryTokens {
  /** The destination's budget; replaced when its document changes. */
  own: RetryBudget | undefined;
  readonly whole: RetryBudget | undefined;

  constructor(own: RetryBudget | undefined, whole: RetryBudget | undefined) {
    this.own = own;
    this.whole = whole;
  }

  /** `now` if a retry may be sent; otherwise when asking again is worthwhile. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { own, whole } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return whole ? Math.max(ownAt, budgetReadyAt(whole, now, throttled, patient)) : ownAt;
  }

  /** A first attempt is counted; a retry or hedge takes a token. `readyAt` has said that it may. */
  take(holder: Tickets, isRetry: boolean, now: number, throttled: boolean, patient: boolean): void {
    const { own, whole } = this;
    const take = (budget: RetryBudget) =>
      isRetry ? takeRetry(budget, now, throttled, patient) : countFirst(budget, now);
    holder.budget = own;
    holder.ticket = own ? take(own) : 0;
    holder.wholeTicket = whole ? take(whole) : 0;
  }

  /** The attempt was never sent. */
  giveBack({ ticket, wholeTicket, budget }: Tickets, isRetry: boolean): void {
    const back = isRetry ? giveBack : uncountFirst;
    if (this.own && budget === this.own) back(this.own, ticket);
    if (this.whole) back(this.whole, wholeTicket);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed({ ticket, wholeTicket, budget }: Tickets, isRefunded: boolean, patient: boolean): void {
    const { own, whole } = this;
    if (own && budget === own) noteSuccess(own, isRefunded ? ticket : 0, patient);
    if (whole) noteSuccess(whole, isRefunded ? wholeTicket : 0, patient);
  }

  fail(): void {
    if (this.own) noteFailure(this.own);
    if (this.whole) noteFailure(this.whole);
  }
}
