/**
 * Shared reads: callers that need the same read in the same turn share one. A batch of 500 tasks to one
 * destination would otherwise make 500 reads at once, and a shared store has few connections.
 *
 * A read is shared only until the current turn ends, so it is never older than the call that gets it.
 */
export class SharedReads<Value> {
  readonly #begun = new Map<string, Promise<Value>>();

  share(key: string, read: () => Promise<Value>): Promise<Value> {
    const begun = this.#begun.get(key);
    if (begun !== undefined) return begun;
    const value = read();
    this.#begun.set(key, value);
    // Callers that continue in this turn run before it.
    void Promise.resolve().then(() => this.#begun.delete(key));
    return value;
  }
}
