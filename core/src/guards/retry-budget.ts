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

// Shared budget: the retry budget that the members of a group (the tenants of a service) or several
// nodes share. A member with any number of failing destinations leaves tokens for the others.

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
