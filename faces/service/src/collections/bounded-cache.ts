/**
 * Bounded cache: a map that is emptied when it is full, and a memoized function on top of it.
 * Emptying is simple, and where keys repeat it is as good as evicting one by one.
 */

/** Longer keys are not memoized, so that no caller can fill the memory with them. */
const MAX_KEY_LENGTH = 2048;

/** A map of at most `maxEntries` entries. */
export class BoundedCache<Value> extends Map<string, Value> {
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    super();
    this.#maxEntries = maxEntries;
  }

  /** Empties the cache first if it is full. */
  override set(key: string, value: Value): this {
    if (this.size >= this.#maxEntries) this.clear();
    return super.set(key, value);
  }
}

/**
 * A pure function of one string that keeps its latest results. Tasks go to a few targets again and
 * again, and checking a URL is the most expensive part of taking a task in.
 */
export function memoize<Value>(
  maxEntries: number,
  compute: (text: string) => Value,
): (text: string) => Value {
  const cache = new BoundedCache<Value>(maxEntries);
  return (text) => {
    const cached = cache.get(text);
    if (cached !== undefined) return cached;
    const value = compute(text);
    if (typeof text === "string" && text.length <= MAX_KEY_LENGTH) cache.set(text, value);
    return value;
  };
}
