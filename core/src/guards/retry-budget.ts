/**
 * Retry budget: limits the retries and hedges of a destination, so retries cannot overload it. Jitter
 * spreads retries; only a budget reduces their number.
 *
 * A granted retry gets a *ticket*, a number other than 0. The ticket is handed back: to
 * `recordBudgetSuccess` if the retry succeeded, to `returnRetryToken` if it was never sent.
 */
import {
  amountRule,
  choiceRule,
  partRule,
  readSavedState,
  versionRule,
} from "../documents/document.ts";
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  countEvent,
  countOfAge,
  createWindow,
  restoreWindow,
  type SavedWindow,
  saveWindow,
  tickAt,
  totalOf,
  uncountEvent,
  type WindowShape,
} from "./sliding-window.ts";

/** The bucket of the AWS SDKs (retry behavior 2.1): only successes refill it, time does not. */
export interface TokenBudgetOptions {
  readonly kind: "TOKENS";
  /** Size of the bucket, which starts full. 1 to 1 000 000. Default: 500. */
  readonly maxTokens: number;
  /** Taken by a retry or hedge. 1 to `maxTokens`. Default: 14. */
  readonly costPerRetry: number;
  /** Taken by a retry after a throttling response. 1 to `maxTokens`. Default: 5. */
  readonly costPerThrottle: number;
  /** Added by the success of a first attempt; that of a retry returns its cost. 0 to `maxTokens`. Default: 1. */
  readonly refillPerSuccess: number;
}

/** gRPC's retry throttling (gRFC A6): a failure costs a token, a retry needs more than half. */
export interface GrpcBudgetOptions {
  readonly kind: "GRPC";
  /** Size of the bucket, which starts full. 1 to 1000. Default: 10. */
  readonly maxTokens: number;
  /** Added by every success, in whole thousandths. 0.001 to 1000. Default: 0.1. */
  readonly tokenRatio: number;
}

export type RetryBudgetOptions = RatioBudgetOptions | TokenBudgetOptions | GrpcBudgetOptions;

/** As in @smithy/core 3.40 (November 2026). */
export const TOKEN_BUDGET_DEFAULTS: TokenBudgetOptions = {
  kind: "TOKENS",
  maxTokens: 500,
  costPerRetry: 14,
  costPerThrottle: 5,
  refillPerSuccess: 1,
};

/** As in the example of gRFC A6. */
export const GRPC_BUDGET_DEFAULTS: GrpcBudgetOptions = {
  kind: "GRPC",
  maxTokens: 10,
  tokenRatio: 0.1,
};

interface TokenBudget {
  readonly kind: "TOKENS";
  /** A node of a fleet has a smaller bucket than its document says. */
  options: TokenBudgetOptions;
  /** Invariant: `0 <= tokens <= maxTokens`. */
  tokens: number;
  /** When the last trial retry was granted. */
  trialAt: number;
}

interface GrpcBudget {
  readonly kind: "GRPC";
  /** A node of a fleet has a smaller bucket than its document says. */
  options: GrpcBudgetOptions;
  /** Thousandths, so ten times 0.1 is exactly 1. Invariant: 0 to 1000 x `maxTokens`. */
  milliTokens: number;
  /** When the last trial retry was granted. */
  trialAt: number;
}

/** Several destinations may share one value; they then share its tokens. */
export type RetryBudget = RatioBudget | TokenBudget | GrpcBudget;

/** Time does not refill a token bucket, but another call may have done so by then. */
export const RECHECK_MS = 1000;

/** A patient caller is granted one trial retry in this time while the budget is empty. */
export const TRIAL_EVERY_MS = 1000;

const NEVER = Number.NEGATIVE_INFINITY;

export function createRetryBudget(options: RetryBudgetOptions, now: number): RetryBudget {
  switch (options.kind) {
    case "RATIO":
      return createRatioBudget(options, now);
    case "TOKENS":
      return { kind: "TOKENS", options, tokens: options.maxTokens, trialAt: NEVER };
    case "GRPC":
      return { kind: "GRPC", options, milliTokens: 1000 * options.maxTokens, trialAt: NEVER };
  }
}

/** Counts a first attempt that starts. The ticket is for `uncountFirstAttempt`. */
export function countFirstAttempt(budget: RetryBudget, now: number): number {
  return budget.kind === "RATIO" ? countRatioFirstAttempt(budget, now) : 0;
}

/** A first attempt that was counted was never sent. */
export function uncountFirstAttempt(budget: RetryBudget, ticket: number): void {
  if (budget.kind === "RATIO") uncountRatioFirstAttempt(budget, ticket);
}

/** True if a retry or hedge would be allowed. Takes nothing. */
export function budgetAllows(budget: RetryBudget, now: number, throttled: boolean): boolean {
  switch (budget.kind) {
    case "RATIO":
      return ratioAllows(budget, now);
    case "TOKENS":
      return budget.tokens >= costOf(budget.options, throttled);
    case "GRPC":
      return budget.milliTokens > 500 * budget.options.maxTokens;
  }
}

/** Takes a token for one retry or hedge. Returns a ticket, or 0 if the budget is empty. */
export function takeRetryToken(
  budget: RetryBudget,
  now: number,
  throttled: boolean,
  patient = false,
): number {
  if (!budgetAllows(budget, now, throttled)) return patient ? takeTrial(budget, now) : 0;
  switch (budget.kind) {
    case "RATIO":
      return takeRatioToken(budget);
    case "TOKENS": {
      const cost = costOf(budget.options, throttled);
      budget.tokens -= cost;
      return cost;
    }
    case "GRPC":
      return 1;
  }
}

/**
 * A retry without a token. Returns its ticket, or 0 if the last one was less than a second ago. Only successes
 * refill a bucket: a patient caller with an empty bucket and a destination without first attempts would wait
 * forever, so it is granted one *trial* retry per second.
 */
export function takeTrial(budget: RetryBudget, now: number): number {
  if (trialReadyAt(budget, now) > now) return 0;
  budget.trialAt = now;
  return ticketOfTrial(now);
}

/** Negative: a trial costs nothing, so its success returns nothing. The number is its instant. */
function ticketOfTrial(trialAt: number): number {
  return -1 - trialAt;
}

/** A RATIO budget with a minimum refills by time and needs no trials. A clock set back is followed. */
export function trialReadyAt(budget: RetryBudget, now: number): number {
  if (budget.kind === "RATIO" && !hasNoFloor(budget.options)) return Number.POSITIVE_INFINITY;
  if (budget.trialAt > now) budget.trialAt = now;
  return Math.max(now, budget.trialAt + TRIAL_EVERY_MS);
}

function costOf(options: TokenBudgetOptions, throttled: boolean): number {
  return throttled ? options.costPerThrottle : options.costPerRetry;
}

/**
 * An attempt succeeded; `ticket` is 0 for a first attempt. For a `patient` caller the budget limits
 * retries only while they fail, so RATIO too forgets a retry that succeeded.
 */
export function recordBudgetSuccess(budget: RetryBudget, ticket: number, patient: boolean): void {
  switch (budget.kind) {
    case "RATIO":
      if (patient && ticket > 0) returnRetryToken(budget, ticket);
      break;
    case "TOKENS":
      addTokens(budget, ticket > 0 ? ticket : budget.options.refillPerSuccess);
      break;
    case "GRPC":
      addMilliTokens(budget, Math.floor(1000 * budget.options.tokenRatio + 0.5));
  }
}

/** An attempt, first or not, failed in a way that is retried. */
export function recordBudgetFailure(budget: RetryBudget): void {
  if (budget.kind === "GRPC") addMilliTokens(budget, -1000);
}

/** Returns the token of a retry that was never sent. */
export function returnRetryToken(budget: RetryBudget, ticket: number): void {
  if (ticket < 0) {
    // If a later trial has been granted since then, that one counts.
    if (ticket === ticketOfTrial(budget.trialAt)) budget.trialAt = NEVER;
    return;
  }
  if (budget.kind === "RATIO") returnRatioToken(budget, ticket);
  if (budget.kind === "TOKENS") addTokens(budget, ticket);
}

function addTokens(budget: TokenBudget, tokens: number): void {
  budget.tokens = Math.min(budget.options.maxTokens, budget.tokens + tokens);
}

function addMilliTokens(budget: GrpcBudget, milliTokens: number): void {
  const sum = Math.max(0, budget.milliTokens + milliTokens);
  budget.milliTokens = Math.min(1000 * budget.options.maxTokens, sum);
}

/** `now` if a retry may be sent; otherwise when to check again. */
export function budgetReadyAt(
  budget: RetryBudget,
  now: number,
  throttled: boolean,
  patient: boolean,
): number {
  if (budgetAllows(budget, now, throttled)) return now;
  const refillAt = budgetRefillAt(budget, now);
  return patient ? Math.min(refillAt, trialReadyAt(budget, now)) : refillAt;
}

/** When to check an empty budget again. Always after `now`. */
export function budgetRefillAt(budget: RetryBudget, now: number): number {
  return budget.kind === "RATIO" ? ratioRefillAt(budget, now) : now + RECHECK_MS;
}

/** A budget as JSON. */
export interface SavedRetryBudget {
  readonly version: 1;
  readonly kind: RetryBudgetOptions["kind"];
  /** Tokens, or thousandths of them for GRPC; 0 for RATIO. */
  readonly tokens: number;
  /** RATIO's counts; null for the others. */
  readonly window: SavedWindow | null;
}

export function saveRetryBudget(budget: RetryBudget): SavedRetryBudget {
  const { kind } = budget;
  if (kind === "RATIO") return { version: 1, kind, tokens: 0, window: saveWindow(budget.window) };
  const tokens = kind === "GRPC" ? budget.milliTokens : budget.tokens;
  return { version: 1, kind, tokens, window: null };
}

/** A budget of another kind starts fresh; tokens beyond a smaller bucket are lost. */
export function restoreRetryBudget(
  options: RetryBudgetOptions,
  value: unknown,
  now: number,
): RetryBudget {
  const saved = readSavedState<SavedRetryBudget>("retryBudget", value, {
    version: versionRule,
    kind: choiceRule("RATIO", "TOKENS", "GRPC"),
    tokens: amountRule,
    window: partRule,
  });
  const budget = createRetryBudget(options, now);
  if (saved.kind !== budget.kind) return budget;
  switch (budget.kind) {
    case "RATIO":
      return restoreRatioBudget(budget.options, saved.window, now);
    case "TOKENS":
      budget.tokens = Math.min(budget.tokens, saved.tokens);
      return budget;
    case "GRPC":
      budget.milliTokens = Math.min(budget.milliTokens, Math.floor(saved.tokens));
      return budget;
  }
}

// A ratio budget limits retries to a share of first attempts, plus a minimum, so it follows the traffic.
// Invariant: in every window that ends at a retry,
// retries <= ratio x first attempts + minPerSecond x windowMs / 1000.

export interface RatioBudgetOptions {
  readonly kind: "RATIO";
  /** Retries allowed per first attempt. 0 to 10. Default: 0.2. */
  readonly ratio: number;
  /** Additional retries per second, for quiet destinations. 0 to 1000. Default: 1. */
  readonly minPerSecond: number;
  /** Window of both counts. 100 to 3 600 000 ms. Default: 10 000. */
  readonly windowMs: number;
}

export const RATIO_BUDGET_DEFAULTS: RatioBudgetOptions = {
  kind: "RATIO",
  ratio: 0.2,
  minPerSecond: 1,
  windowMs: 10_000,
};

export interface RatioBudget {
  readonly kind: "RATIO";
  readonly options: RatioBudgetOptions;
  /** A node of a fleet has only this part of the minimum, in retries per window. */
  floor?: number;
  readonly window: CountWindow;
  /** When the last trial retry was granted: see `retry-budget.ts`. */
  trialAt: number;
}

const FIRSTS = 0;
const RETRIES = 1;

/** One bucket more than a window has: see `allowedRetries`. */
function shapeOf({ windowMs }: RatioBudgetOptions): WindowShape {
  return { windowMs, slots: BUCKETS_PER_WINDOW + 1, kinds: 2 };
}

export function createRatioBudget(options: RatioBudgetOptions, now: number): RatioBudget {
  const window = createWindow(shapeOf(options), now);
  return { kind: "RATIO", options, window, trialAt: Number.NEGATIVE_INFINITY };
}

/** The minimum, in retries per window. */
export function floorOf({ minPerSecond, windowMs }: RatioBudgetOptions): number {
  return (minPerSecond * windowMs) / 1000;
}

/** Counts a first attempt. The ticket names its bucket. */
export function countRatioFirstAttempt({ window }: RatioBudget, now: number): number {
  advanceWindow(window, now);
  countEvent(window, FIRSTS);
  return window.tick + 1;
}

/** A first attempt that was counted was never sent. */
function uncountRatioFirstAttempt({ window }: RatioBudget, ticket: number): void {
  uncountEvent(window, FIRSTS, ticket - 1);
}

/** True if the minimum alone never allows a retry, however long nothing happens. */
function hasNoFloor(options: RatioBudgetOptions): boolean {
  return floorOf(options) < 1;
}

export function ratioAllows(budget: RatioBudget, now: number): boolean {
  advanceWindow(budget.window, now);
  return totalOf(budget.window, RETRIES) + 1 <= allowedRetries(budget);
}

/** The retries in the window. */
export function ratioUsed({ window }: RatioBudget, now: number): number {
  advanceWindow(window, now);
  return totalOf(window, RETRIES);
}

/**
 * Retries are counted over all buckets (at least `windowMs`), and first attempts over all but the oldest
 * (at most `windowMs`). So the division into buckets never exceeds the limit.
 */
export function allowedRetries({ options, window, floor = floorOf(options) }: RatioBudget): number {
  const firsts = totalOf(window, FIRSTS) - countOfAge(window, FIRSTS, BUCKETS_PER_WINDOW);
  return options.ratio * firsts + floor;
}

/** Counts a retry that `ratioAllows` has allowed. The ticket names its bucket. */
export function takeRatioToken({ window }: RatioBudget): number {
  countEvent(window, RETRIES);
  return window.tick + 1;
}

/** Removes a retry from the bucket in which it was counted, so no other window allows more. */
export function returnRatioToken({ window }: RatioBudget, ticket: number): void {
  uncountEvent(window, RETRIES, ticket - 1);
}

/** When enough retries will have left the window if first attempts continue at the same rate. */
export function ratioRefillAt(budget: RatioBudget, now: number): number {
  const { window } = budget;
  advanceWindow(window, now);
  const allowed = allowedRetries(budget);
  let retries = totalOf(window, RETRIES);
  let steps = 0;
  do {
    retries -= countOfAge(window, RETRIES, BUCKETS_PER_WINDOW - steps);
    steps++;
  } while (retries + 1 > allowed && steps <= BUCKETS_PER_WINDOW);
  return tickAt(window.shape, window.tick + steps);
}

/** When `isEnough` retries will have left the window, given the number of steps of its buckets. */
export function ratioStepAt({ window }: RatioBudget, isEnough: (steps: number) => boolean): number {
  let steps = 1;
  while (!isEnough(steps) && steps <= BUCKETS_PER_WINDOW) steps++;
  return tickAt(window.shape, window.tick + steps);
}

/** The number of retries that will have left the window after so many steps of its buckets. */
export function ratioLeaving({ window }: RatioBudget, steps: number): number {
  let left = 0;
  for (let step = 0; step < steps; step++) {
    left += countOfAge(window, RETRIES, BUCKETS_PER_WINDOW - step);
  }
  return left;
}

function restoreRatioBudget(
  options: RatioBudgetOptions,
  window: unknown,
  now: number,
): RatioBudget {
  const restored = restoreWindow("retryBudget.window", shapeOf(options), window, now);
  return { kind: "RATIO", options, window: restored, trialAt: Number.NEGATIVE_INFINITY };
}
