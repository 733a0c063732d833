/**
 * Shared budget: the retry budget that the members of a group (the tenants of a service) or several nodes
 * share. A member with any number of failing destinations leaves tokens for the others.
 */
import {
  allowedRetries,
  budgetAllows,
  budgetReadyAt,
  countFirstAttempt,
  createRetryBudget,
  floorOf,
  type RatioBudget,
  type RatioBudgetOptions,
  type RetryBudget,
  type RetryBudgetOptions,
  ratioLeaving,
  ratioStepAt,
  ratioUsed,
  recordBudgetFailure,
  recordBudgetSuccess,
  restoreRetryBudget,
  returnRetryToken,
  type SavedRetryBudget,
  saveRetryBudget,
  TRIAL_EVERY_MS,
  takeRatioToken,
  takeRetryToken,
  takeTrial,
  trialReadyAt,
  uncountFirstAttempt,
} from "./retry-budget.ts";

/** One member leaves this part of the limit to the others, in addition to the limit. */
const RESERVE = 1 / 7;

/** Members that used nothing are dropped when there are this many, or twice what was kept. */
const MIN_MEMBERS_TO_DROP = 1024;

/** The budget as one member uses it. */
export class BudgetShare {
  readonly shared: SharedBudget;
  private readonly member: string;

  constructor(shared: SharedBudget, member: string) {
    this.shared = shared;
    this.member = member;
  }

  readyAt(now: number, throttled: boolean, patient: boolean): number {
    return this.shared.readyAt(this.member, now, throttled, patient);
  }

  take(isRetry: boolean, now: number, throttled: boolean, patient: boolean): number {
    return this.shared.take(this.member, isRetry, now, throttled, patient);
  }

  handBack(ticket: number, isRetry: boolean): void {
    this.shared.handBack(this.member, ticket, isRetry);
  }

  succeed(ticket: number, patient: boolean): void {
    this.shared.succeed(this.member, ticket, patient);
  }

  fail(now: number): void {
    this.shared.fail(this.member, now);
  }
}

/**
 * RATIO is divided by `fairRoom`: one member may use the whole limit, and all members together may use an
 * eighth more (exactly: a seventh of the limit). So a member that has not retried gets tokens at once, and
 * members that need more than their part get equal parts.
 *
 * Only successes refill the buckets of the other kinds, so the failures of one member would empty them for
 * all. Each member has its own bucket.
 */
export class SharedBudget {
  /** RATIO: all members together. Otherwise: the bucket of the first member. */
  readonly whole: RetryBudget;
  /** Each member alone. A missing member has used nothing. */
  private readonly members = new Map<string, RetryBudget>();
  /** The state that an earlier process saved does not say whose it is: it counts for every member. */
  private readonly restored: SavedRetryBudget;
  private dropAt = MIN_MEMBERS_TO_DROP;

  constructor(whole: RetryBudget) {
    this.whole = whole;
    this.restored = saveRetryBudget(whole);
  }

  /** Limits the budget to a part of its options, because other nodes use the rest. */
  setPlace(options: RetryBudgetOptions, place: BudgetPlace): void {
    for (const budget of new Set([this.whole, ...this.members.values()])) {
      shareBudget(budget, options, place);
    }
  }

  /** True if a retry of the member would be allowed. Takes nothing. */
  allows(member: string, now: number, throttled: boolean): boolean {
    const own = this.ownOf(member, now);
    return this.whole.kind === "RATIO"
      ? hasRoom(this.whole, own as RatioBudget, now)
      : budgetAllows(own, now, throttled);
  }

  /** `now` if a retry of the member may be sent; otherwise when to check again. */
  readyAt(member: string, now: number, throttled: boolean, patient: boolean): number {
    const own = this.ownOf(member, now);
    if (this.whole.kind !== "RATIO") return budgetReadyAt(own, now, throttled, patient);
    if (hasRoom(this.whole, own as RatioBudget, now)) return now;
    const refillAt = roomAt(this.whole, own as RatioBudget, now);
    return patient ? Math.min(refillAt, trialReadyAt(own, now)) : refillAt;
  }

  /** Counts a first attempt, or takes a token for a retry. The ticket is 0 if it may take none. */
  take(
    member: string,
    isRetry: boolean,
    now: number,
    throttled: boolean,
    patient: boolean,
  ): number {
    if (!isRetry) return countFirstAttempt(this.whole, now);
    const own = this.ownOf(member, now);
    const { whole } = this;
    if (whole.kind !== "RATIO") return takeRetryToken(own, now, throttled, patient);
    const ratio = own as RatioBudget;
    if (!hasRoom(whole, ratio, now)) return patient ? takeTrial(own, now) : 0;
    takeRatioToken(ratio);
    return takeRatioToken(whole);
  }

  /** The attempt was never sent. */
  handBack(member: string, ticket: number, isRetry: boolean): void {
    if (!isRetry) {
      uncountFirstAttempt(this.whole, ticket);
      return;
    }
    for (const budget of this.budgetsOf(member)) returnRetryToken(budget, ticket);
  }

  /** An attempt of the member succeeded; `ticket` is 0 for a first attempt. */
  succeed(member: string, ticket: number, patient: boolean): void {
    for (const budget of this.budgetsOf(member)) recordBudgetSuccess(budget, ticket, patient);
  }

  /** An attempt of the member, first or not, failed in a way that is retried. */
  fail(member: string, now: number): void {
    if (this.whole.kind === "GRPC") recordBudgetFailure(this.ownOf(member, now));
  }

  /** The budgets that count the retries of the member. */
  private budgetsOf(member: string): readonly RetryBudget[] {
    const own = this.members.get(member);
    if (own === undefined) return [];
    return this.whole.kind === "RATIO" ? [own, this.whole] : [own];
  }

  private ownOf(member: string, now: number): RetryBudget {
    let own = this.members.get(member);
    if (own === undefined) {
      if (this.members.size >= this.dropAt) this.dropUnused(now);
      own = this.newMember(now);
      this.members.set(member, own);
    }
    return own;
  }

  private newMember(now: number): RetryBudget {
    const { whole } = this;
    if (whole.kind === "RATIO") return restoreRetryBudget(whole.options, this.restored, now);
    return this.members.size === 0 ? whole : createRetryBudget(whole.options, now);
  }

  private dropUnused(now: number): void {
    for (const [member, own] of this.members) {
      if (own !== this.whole && isUnused(own, now)) this.members.delete(member);
    }
    this.dropAt = Math.max(MIN_MEMBERS_TO_DROP, 2 * this.members.size);
  }
}

function hasRoom(whole: RatioBudget, own: RatioBudget, now: number): boolean {
  const used = ratioUsed(whole, now);
  return mayRetry(allowedRetries(whole), used, ratioUsed(own, now));
}

function mayRetry(allowed: number, used: number, own: number): boolean {
  if (own + 1 > allowed) return false;
  const reserve = Math.max(1, Math.ceil(allowed * RESERVE));
  return fairRoom(allowed + reserve, used, own) >= 1;
}

/** When enough retries of the member, or of all, will have left the window. */
function roomAt(whole: RatioBudget, own: RatioBudget, now: number): number {
  const used = ratioUsed(whole, now);
  const ownUsed = ratioUsed(own, now);
  const allowed = allowedRetries(whole);
  return ratioStepAt(whole, (steps) =>
    mayRetry(allowed, used - ratioLeaving(whole, steps), ownUsed - ratioLeaving(own, steps)),
  );
}

/** A new budget would behave the same. */
function isUnused(own: RetryBudget, now: number): boolean {
  if (own.trialAt + TRIAL_EVERY_MS > now) return false;
  switch (own.kind) {
    case "RATIO":
      return ratioUsed(own, now) === 0;
    case "TOKENS":
      return own.tokens === own.options.maxTokens;
    case "GRPC":
      return own.milliTokens === 1000 * own.options.maxTokens;
  }
}

// The part of a retry budget that one of several nodes uses. A ratio of first attempts divides itself,
// because each node counts its own. The minimum and the buckets are divided by the number of nodes.

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

// Fair share: how much of a shared limit one member (a tenant) may still take. A member may use at
// most seven times what is free. So one busy member uses up to seven eighths of the limit, two use
// up to seven fifteenths each, and so on: members that need more than their part get equal parts, an
// unused part is available to the others, and something is free for the next member. The sum
// never exceeds the limit. This is the dynamic threshold of shared packet buffers (Choudhury and
// Hahne, 1998).

/** A larger number wastes less of the limit, and leaves less for the next member at once. */
const MAX_TIMES_FREE = 7;

/**
 * The number of units that a member may take now, one after the other. A member that has none gets at
 * least one if one is free. The last free unit is for such a member.
 */
export function fairRoom(limit: number, used: number, own: number): number {
  const free = Math.floor(limit - used);
  if (free < 1) return 0;
  // Unit n may be taken if (own + n - 1) < 7 x (free - n).
  const room = Math.ceil((MAX_TIMES_FREE * free - own + 1) / (MAX_TIMES_FREE + 1)) - 1;
  return Math.max(room, own === 0 ? 1 : 0);
}
