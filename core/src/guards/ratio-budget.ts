/**
 * Ratio budget: limits retries to a share of first attempts, plus a minimum. This kind of budget follows
 * the traffic; `retry-budget.ts` has the kinds with tokens.
 *
 * Invariant: in every window that ends at a retry,
 * retries <= ratio x first attempts + minPerSecond x windowMs / 1000.
 */
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  countEvent,
  countOfAge,
  createWindow,
  restoreWindow,
  tickAt,
  totalOf,
  uncountEvent,
  type WindowShape,
} from "./sliding-window.ts";

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
export function uncountRatioFirstAttempt({ window }: RatioBudget, ticket: number): void {
  uncountEvent(window, FIRSTS, ticket - 1);
}

/** True if the minimum alone never allows a retry, however long nothing happens. */
export function hasNoFloor(options: RatioBudgetOptions): boolean {
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

export function restoreRatioBudget(
  options: RatioBudgetOptions,
  window: unknown,
  now: number,
): RatioBudget {
  const restored = restoreWindow("retryBudget.window", shapeOf(options), window, now);
  return { kind: "RATIO", options, window: restored, trialAt: Number.NEGATIVE_INFINITY };
}
