/**
 * Fleet budget: the part of a retry budget that one of several nodes uses. A ratio of first attempts
 * divides itself, because each node counts its own. The minimum and the buckets are divided by the
 * number of nodes.
 */
import { floorOf, type RatioBudgetOptions } from "./ratio-budget.ts";
import type { RetryBudget, RetryBudgetOptions } from "./retry-budget.ts";

/** The place of this node among the nodes that share a budget. */
export interface BudgetPlace {
  /** At least 1. */
  readonly nodes: number;
  /** The largest number of nodes since one window ago. */
  readonly maxNodes: number;
  /** This node has joined others, which may have used the whole budget within the last window. */
  readonly isNew: boolean;
  /** The retries of the minimum that were reserved for this node within the last window. */
  readonly reserved: number;
}

/** Limits the budget to the part of this node. `options` are those of the whole budget. */
export function shareBudget(
  budget: RetryBudget,
  options: RetryBudgetOptions,
  place: BudgetPlace,
): void {
  if (budget.kind === "RATIO" && options.kind === "RATIO") {
    budget.floor = ownFloor(options, place);
  } else if (budget.kind === "TOKENS" && options.kind === "TOKENS") {
    // A bucket that cannot pay for one retry would allow none, however long nothing fails.
    const minTokens = Math.max(options.costPerRetry, options.costPerThrottle);
    const maxTokens = Math.max(minTokens, options.maxTokens / place.nodes);
    budget.tokens = (budget.tokens * maxTokens) / budget.options.maxTokens;
    budget.options = { ...options, maxTokens };
  } else if (budget.kind === "GRPC" && options.kind === "GRPC") {
    const maxTokens = Math.max(1, options.maxTokens / place.nodes);
    budget.milliTokens = (budget.milliTokens * maxTokens) / budget.options.maxTokens;
    budget.options = { ...options, maxTokens };
  }
}

/**
 * The part of the minimum. When the nodes change, a node may use a larger part only after a window,
 * because the others may have used theirs.
 */
function ownFloor(options: RatioBudgetOptions, { maxNodes, isNew, reserved }: BudgetPlace): number {
  if (isNew) return 0;
  if (maxNodes === 1) return floorOf(options);
  return isDivisible(options, maxNodes) ? Math.floor(floorOf(options) / maxNodes) : reserved;
}

/** Does every node get at least one retry of the minimum? Otherwise nodes reserve them one by one. */
function isDivisible(options: RatioBudgetOptions, nodes: number): boolean {
  return floorOf(options) >= nodes;
}

/** The rate of retries to reserve, if the minimum cannot be divided; undefined: it can, or is none. */
export function reservedRetries(
  options: RetryBudgetOptions,
  maxNodes: number,
): { readonly perSecond: number; readonly burst: number } | undefined {
  if (options.kind !== "RATIO" || maxNodes === 1 || isDivisible(options, maxNodes))
    return undefined;
  const floor = Math.floor(floorOf(options));
  // With a burst of 1, a window has at most as many as it has intervals.
  return floor === 0 ? undefined : { perSecond: (1000 * floor) / options.windowMs, burst: 1 };
}
