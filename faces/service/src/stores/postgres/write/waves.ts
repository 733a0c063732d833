/**
 * Waves: numbers the items of a list so that items with a common key have different numbers, in
 * their order. The server carries out one wave at a time, and the items of a wave by one statement.
 */
export class Waves {
  readonly #last = new Map<string, number>();

  /** The wave of the next item. */
  next(keys: readonly string[]): number {
    const waves = keys.map((key) => (this.#last.get(key) ?? -1) + 1);
    const wave = Math.max(0, ...waves);
    for (const key of keys) this.#last.set(key, wave);
    return wave;
  }
}
