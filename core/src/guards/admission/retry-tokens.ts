/**
 * Retry tokens: the tokens that attempts take from the retry budget of their destination and from the
 * budget of the whole service, both or neither. The service's budget limits retries when many
 * destinations fail at once.
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

/** The tickets of one attempt: one from each budget that is on, 0 from one that is off. */
export interface RetryTickets {
  ticket: number;
  serviceTicket: number;
  /** The budget that gave `ticket`. A budget that replaced it does not know the ticket. */
  budget: RetryBudget | undefined;
}

export class RetryTokens {
  /** The destination's budget; replaced when its document changes. */
  budget: RetryBudget | undefined;
  readonly serviceBudget: RetryBudget | undefined;

  constructor(own: RetryBudget | undefined, serviceBudget: RetryBudget | undefined) {
    this.budget = own;
    this.serviceBudget = serviceBudget;
  }

  /** `now` if a retry may be sent; otherwise when to check again. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { budget: own, serviceBudget } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return serviceBudget
      ? Math.max(ownAt, budgetReadyAt(serviceBudget, now, throttled, patient))
      : ownAt;
  }

  /** Counts a first attempt, or takes a token for a retry or hedge. `readyAt` has allowed it. */
  take(
    holder: RetryTickets,
    isRetry: boolean,
    now: number,
    throttled: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget } = this;
    const take = (budget: RetryBudget) =>
      isRetry ? takeRetryToken(budget, now, throttled, patient) : countFirstAttempt(budget, now);
    holder.budget = own;
    holder.ticket = own ? take(own) : 0;
    holder.serviceTicket = serviceBudget ? take(serviceBudget) : 0;
  }

  /** The attempt was never sent. */
  handBack({ ticket, serviceTicket, budget }: RetryTickets, isRetry: boolean): void {
    const back = isRetry ? returnRetryToken : uncountFirstAttempt;
    if (this.budget && budget === this.budget) back(this.budget, ticket);
    if (this.serviceBudget) back(this.serviceBudget, serviceTicket);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed(
    { ticket, serviceTicket, budget }: RetryTickets,
    isRefunded: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget } = this;
    if (own && budget === own) recordBudgetSuccess(own, isRefunded ? ticket : 0, patient);
    if (serviceBudget) recordBudgetSuccess(serviceBudget, isRefunded ? serviceTicket : 0, patient);
  }

  fail(): void {
    if (this.budget) recordBudgetFailure(this.budget);
    if (this.serviceBudget) recordBudgetFailure(this.serviceBudget);
  }
}
