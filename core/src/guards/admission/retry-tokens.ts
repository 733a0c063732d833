/**
 * Retry tokens: the tokens that attempts take from the retry budget of their destination and from the
 * budget of the whole service, both or neither. The service's budget limits retries when many
 * destinations fail at once. The tenants of the service share it.
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
import type { BudgetShare } from "../shared-budget.ts";

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
  readonly serviceBudget: BudgetShare | undefined;

  /** `serviceBudget`: the tenant's share of the service's budget. */
  constructor(own: RetryBudget | undefined, serviceBudget: BudgetShare | undefined) {
    this.budget = own;
    this.serviceBudget = serviceBudget;
  }

  /** `now` if a retry may be sent; otherwise when to check again. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { budget: own, serviceBudget } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return serviceBudget ? Math.max(ownAt, serviceBudget.readyAt(now, throttled, patient)) : ownAt;
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
    holder.budget = own;
    holder.ticket = 0;
    if (own) {
      holder.ticket = isRetry
        ? takeRetryToken(own, now, throttled, patient)
        : countFirstAttempt(own, now);
    }
    holder.serviceTicket = serviceBudget?.take(isRetry, now, throttled, patient) ?? 0;
  }

  /** The attempt was never sent. */
  handBack({ ticket, serviceTicket, budget }: RetryTickets, isRetry: boolean): void {
    if (budget && budget === this.budget) {
      (isRetry ? returnRetryToken : uncountFirstAttempt)(budget, ticket);
    }
    this.serviceBudget?.handBack(serviceTicket, isRetry);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed(
    { ticket, serviceTicket, budget }: RetryTickets,
    isRefunded: boolean,
    patient: boolean,
  ): void {
    if (budget && budget === this.budget) {
      recordBudgetSuccess(budget, isRefunded ? ticket : 0, patient);
    }
    this.serviceBudget?.succeed(isRefunded ? serviceTicket : 0, patient);
  }

  fail(now: number): void {
    if (this.budget) recordBudgetFailure(this.budget);
    this.serviceBudget?.fail(now);
  }
}
