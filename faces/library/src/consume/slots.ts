/**
 * Slots: the number of handlers that a consumer runs at once. A handler that ignores its timeout gives
 * its slot back, so that a few of them do not stop the consumer. As many handlers as there are slots may
 * do so; then the next message waits.
 */
export class Slots {
  readonly count: number;
  /** Handlers whose message is not answered yet. */
  #taken = 0;
  /** Handlers that still run after their message was answered. */
  #overdue = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.count = count;
  }

  get taken(): number {
    return this.#taken;
  }

  get overdue(): number {
    return this.#overdue;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Slots that a message can have at once. */
  get free(): number {
    return this.#overdue >= this.count ? 0 : this.count - this.#taken;
  }

  /** Undefined: the slot is taken. Otherwise it is taken when the promise resolves. */
  take(): Promise<void> | undefined {
    if (this.free > 0) {
      this.#taken++;
      return undefined;
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  release(): void {
    this.#taken--;
    this.#wake();
  }

  /** The handler of an answered message still runs, until `ended` settles. */
  addOverdue(ended: Promise<unknown>): void {
    this.#overdue++;
    const end = () => {
      this.#overdue--;
      this.#wake();
    };
    ended.then(end, end);
  }

  #wake(): void {
    while (this.free > 0 && this.#waiting.length > 0) {
      this.#taken++;
      this.#waiting.shift()?.();
    }
  }
}
