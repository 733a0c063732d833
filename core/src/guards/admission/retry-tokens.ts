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
import type { SharedBudget } from "../shared-budget.ts";

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
  readonly serviceBudget: SharedBudget | undefined;
  private readonly tenantId: string;

  /** `tenantId`: whose share of the service's budget is used. */
  constructor(
    own: RetryBudget | undefined,
    serviceBudget: SharedBudget | undefined,
    tenantId: string,
  ) {
    this.budget = own;
    this.serviceBudget = serviceBudget;
    this.tenantId = tenantId;
  }

  /** `now` if a retry may be sent; otherwise when to check again. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { budget: own, serviceBudget, tenantId } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return serviceBudget
      ? Math.max(ownAt, serviceBudget.readyAt(tenantId, now, throttled, patient))
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
    const { budget: own, serviceBudget, tenantId } = this;
    const take = (budget: RetryBudget) =>
      isRetry ? takeRetryToken(budget, now, throttled, patient) : countFirstAttempt(budget, now);
    holder.budget = own;
    holder.ticket = own ? take(own) : 0;
    holder.serviceTicket = serviceBudget?.take(tenantId, isRetry, now, throttled, patient) ?? 0;
  }

  /** The attempt was never sent. */
  handBack({ ticket, serviceTicket, budget }: RetryTickets, isRetry: boolean): void {
    const { budget: own, serviceBudget, tenantId } = this;
    if (own && budget === own) (isRetry ? returnRetryToken : uncountFirstAttempt)(own, ticket);
    serviceBudget?.handBack(tenantId, serviceTicket, isRetry);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed(
    { ticket, serviceTicket, budget }: RetryTickets,
    isRefunded: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget, tenantId } = this;
    if (own && budget === own) recordBudgetSuccess(own, isRefunded ? ticket : 0, patient);
    serviceBudget?.succeed(tenantId, isRefunded ? serviceTicket : 0, patient);
  }

  fail(now: number): void {
    if (this.budget) recordBudgetFailure(this.budget);
    this.serviceBudget?.fail(this.tenantId, now);
  }
}
