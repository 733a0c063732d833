/**
 * Retry tokens: what attempts take from the retry budget of their destination and from the budget
 * of the whole service, both or neither. The second one keeps many destinations that fail at once
 * from turning a service into a source of nothing but retries.
 */
import {
  budgetReadyAt,
  countFirstAttempt,
  type RetryBudget,
  recordBudgetFailure,
  recordBudgetSuccess,
  returnRetryToken,
  takeRetryToken,
  uncountFirstAttempt,
} from "../retry-budget.ts";

/** What one attempt holds: a ticket of each budget that is on, 0 from one that is off. */
export interface RetryTickets {
  ticket: number;
  serviceTicket: number;
  /** The budget that gave `ticket`. A budget that replaced it knows nothing of the ticket. */
  budget: RetryBudget | undefined;
}

export class RetryTokens {
  /** The destination's budget; replaced when its document changes. */
  budget: RetryBudget | undefined;
  readonly serviceBudget: RetryBudget | undefined;

  constructor(own: RetryBudget | undefined, whole: RetryBudget | undefined) {
    this.budget = own;
    this.serviceBudget = whole;
  }

  /** `now` if a retry may be sent; otherwise when asking again is worthwhile. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { budget: own, serviceBudget: whole } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return whole ? Math.max(ownAt, budgetReadyAt(whole, now, throttled, patient)) : ownAt;
  }

  /** A first attempt is counted; a retry or hedge takes a token. `readyAt` has said that it may. */
  take(
    holder: RetryTickets,
    isRetry: boolean,
    now: number,
    throttled: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget: whole } = this;
    const take = (budget: RetryBudget) =>
      isRetry ? takeRetryToken(budget, now, throttled, patient) : countFirstAttempt(budget, now);
    holder.budget = own;
    holder.ticket = own ? take(own) : 0;
    holder.serviceTicket = whole ? take(whole) : 0;
  }

  /** The attempt was never sent. */
  handBack({ ticket, serviceTicket: wholeTicket, budget }: RetryTickets, isRetry: boolean): void {
    const back = isRetry ? returnRetryToken : uncountFirstAttempt;
    if (this.budget && budget === this.budget) back(this.budget, ticket);
    if (this.serviceBudget) back(this.serviceBudget, wholeTicket);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed(
    { ticket, serviceTicket: wholeTicket, budget }: RetryTickets,
    isRefunded: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget: whole } = this;
    if (own && budget === own) recordBudgetSuccess(own, isRefunded ? ticket : 0, patient);
    if (whole) recordBudgetSuccess(whole, isRefunded ? wholeTicket : 0, patient);
  }

  fail(): void {
    if (this.budget) recordBudgetFailure(this.budget);
    if (this.serviceBudget) recordBudgetFailure(this.serviceBudget);
  }
}
