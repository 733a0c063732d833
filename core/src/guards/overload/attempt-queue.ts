/**
 * Attempt queue: the requests that wait for a slot of a busy server. First attempts go before retries,
 * and take their places when the queue is full: a retry has had its chance, and many retries are the sign
 * of an overload. A few retries still pass, so that clients that were sent away are served some time.
 */

/** A request in the queue. The caller keeps it, to remove the request when its time is over. */
export interface QueuedAttempt<T> {
  readonly value: T;
  readonly isRetry: boolean;
  isWaiting: boolean;
  previous: QueuedAttempt<T> | undefined;
  next: QueuedAttempt<T> | undefined;
}

/** After this many first attempts in a row, a retry that waits is next. */
const FIRSTS_IN_A_ROW = 9;

interface Line<T> {
  first: QueuedAttempt<T> | undefined;
  last: QueuedAttempt<T> | undefined;
  size: number;
}

export class AttemptQueue<T> {
  /** A request that lost its place to a first attempt in the latest `join`. */
  displaced: T | undefined = undefined;
  readonly #max: number;
  readonly #firsts: Line<T> = { first: undefined, last: undefined, size: 0 };
  readonly #retries: Line<T> = { first: undefined, last: undefined, size: 0 };
  #firstsInARow = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#firsts.size + this.#retries.size;
  }

  /** How many requests would be served before a new one. */
  ahead(isRetry: boolean): number {
    return isRetry ? this.size : this.#firsts.size;
  }

  /** Undefined if there is no place. `displaced` is set if a retry lost its place. */
  join(value: T, isRetry: boolean): QueuedAttempt<T> | undefined {
    this.displaced = undefined;
    if (this.size >= this.#max && !this.#displace(isRetry)) return undefined;
    const line = isRetry ? this.#retries : this.#firsts;
    const { last: previous } = line;
    const entry = { value, isRetry, isWaiting: true, previous, next: undefined };
    if (previous === undefined) line.first = entry;
    else previous.next = entry;
    line.last = entry;
    line.size++;
    return entry;
  }

  /** The newest retry has waited least. */
  #displace(isRetry: boolean): boolean {
    const { last } = this.#retries;
    if (isRetry || last === undefined) return false;
    this.remove(last);
    this.displaced = last.value;
    return true;
  }

  /** The request to serve next; undefined if none waits. It stays in the queue. */
  peek(): QueuedAttempt<T> | undefined {
    const isRetryDue = this.#firstsInARow >= FIRSTS_IN_A_ROW && this.#retries.size > 0;
    return isRetryDue ? this.#retries.first : (this.#firsts.first ?? this.#retries.first);
  }

  /** Removes a request that is served now. */
  serve(entry: QueuedAttempt<T>): void {
    this.#firstsInARow = entry.isRetry || this.#retries.size === 0 ? 0 : this.#firstsInARow + 1;
    this.remove(entry);
  }

  remove(entry: QueuedAttempt<T>): void {
    if (!entry.isWaiting) return;
    entry.isWaiting = false;
    const line = entry.isRetry ? this.#retries : this.#firsts;
    const { previous, next } = entry;
    if (previous === undefined) line.first = next;
    else previous.next = next;
    if (next === undefined) line.last = previous;
    else next.previous = previous;
    line.size--;
  }
}
