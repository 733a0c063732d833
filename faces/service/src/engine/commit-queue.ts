/**
 * Commit queue: the items that wait for the next commit. The other parts of the engine add items;
 * the commit loop takes them, and calls `done` or `failed` of each item when its commit ends. Tenants
 * share the items of a commit equally.
 */

import { TurnQueue } from "../collections/turn-queue.ts";
import type {
  CancelRequest,
  CancelResult,
  Create,
  CreateResult,
  RetryNowResult,
  Settle,
  SettleResult,
  TaskRef,
} from "../model/batch.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";

export interface CreateItem {
  readonly create: Omit<Create, "claimVersion">;
  readonly destination: DestinationRuntime;
  readonly done: (result: CreateResult) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * A settle has no `failed`: it is repeated until it is committed. If the store refuses its content, it
 * is repeated with less content (`refused-items.ts`).
 */
export interface SettleItem {
  readonly settle: Settle;
  readonly destination: DestinationRuntime;
  readonly done: (result: SettleResult) => void;
  /** How often the store refused its content. Default: never. */
  readonly refusals?: number;
}

/** A request about one task. */
interface RequestItem<Request extends TaskRef, Result> {
  readonly request: Request;
  readonly done: (result: Result) => void;
  readonly failed: (error: unknown) => void;
}

type CancelItem = RequestItem<CancelRequest, CancelResult>;
type RetryNowItem = RequestItem<TaskRef, RetryNowResult>;

/** The items of one commit. */
export interface CommitItems {
  readonly creates: readonly CreateItem[];
  readonly settles: readonly SettleItem[];
  readonly cancels: readonly CancelItem[];
  readonly retryNows: readonly RetryNowItem[];
}

export class CommitQueue {
  readonly #creates = new TurnQueue<CreateItem>();
  readonly #settles = new TurnQueue<SettleItem>();
  readonly #cancels = new TurnQueue<CancelItem>();
  readonly #retryNows = new TurnQueue<RetryNowItem>();
  #changed = new Set<DestinationRuntime>();
  #listener: (() => void) | undefined;

  /** The commit loop listens for requests. */
  onRequest(listener: () => void): void {
    this.#listener = listener;
  }

  /** Requests a commit, for example because a lane is due. */
  request(): void {
    this.#listener?.();
  }

  addCreate(item: CreateItem): void {
    this.#creates.push(item.create.task.tenantId, item);
    this.request();
  }

  addSettle(item: SettleItem): void {
    this.#settles.push(item.settle.tenantId, item);
    this.request();
  }

  addCancel(item: CancelItem): void {
    this.#cancels.push(item.request.tenantId, item);
    this.request();
  }

  addRetryNow(item: RetryNowItem): void {
    this.#retryNows.push(item.request.tenantId, item);
    this.request();
  }

  /** The row of the destination is to be written, if it has changed. */
  addChanged(destination: DestinationRuntime): void {
    this.#changed.add(destination);
    this.request();
  }

  /** The number of settles that wait. */
  settleCount(): number {
    return this.#settles.length;
  }

  /** The number of items about tasks that wait. */
  itemCount(): number {
    const count = this.#creates.length + this.#settles.length + this.#cancels.length;
    return count + this.#retryNows.length;
  }

  /** Rows of destinations wait. */
  hasChanged(): boolean {
    return this.#changed.size > 0;
  }

  isEmpty(): boolean {
    return this.itemCount() === 0 && !this.hasChanged();
  }

  /** Takes at most `max` items, but always one create if there is one. */
  take(max: number): CommitItems {
    const settles = this.#settles.take(max);
    const cancels = this.#cancels.take(max - settles.length);
    const retryNows = this.#retryNows.take(max - settles.length - cancels.length);
    const taken = settles.length + cancels.length + retryNows.length;
    const creates = this.#creates.take(Math.max(1, max - taken));
    return { creates, settles, cancels, retryNows };
  }

  /** Takes the destinations whose row a failed commit did not write. */
  takeChanged(): Set<DestinationRuntime> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Puts the settles and rows of a failed commit back. The epoch makes a repeat safe. */
  restore(settles: readonly SettleItem[], changed: readonly DestinationRuntime[]): void {
    for (const item of settles.toReversed()) this.#settles.pushFirst(item.settle.tenantId, item);
    for (const destination of changed) this.#changed.add(destination);
  }

  /** Drops all items except changed destinations. Everyone who waits gets the error. */
  failAll(error: unknown): void {
    failItems(this.take(Number.POSITIVE_INFINITY), error);
  }
}

/** Reports the error to everyone who waits for a result. */
export function failItems(
  { creates, cancels, retryNows }: Pick<CommitItems, "creates" | "cancels" | "retryNows">,
  error: unknown,
): void {
  for (const item of [...creates, ...cancels, ...retryNows]) item.failed(error);
}
