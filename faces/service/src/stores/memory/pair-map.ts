/**
 * Pair map: a map whose keys are pairs of texts, such as a tenant and a task. It is a map of maps, because
 * to join the two texts costs more than to look up both.
 */
export class PairMap<Value> {
  readonly #byFirst = new Map<string, Map<string, Value>>();

  get(first: string, second: string): Value | undefined {
    return this.#byFirst.get(first)?.get(second);
  }

  set(first: string, second: string, value: Value): void {
    const values = this.#byFirst.get(first);
    if (values === undefined) this.#byFirst.set(first, new Map([[second, value]]));
    else values.set(second, value);
  }

  delete(first: string, second: string): void {
    const values = this.#byFirst.get(first);
    values?.delete(second);
    if (values?.size === 0) this.#byFirst.delete(first);
  }

  /** The values whose keys begin with `first`, in the order in which they were added. */
  ofFirst(first: string): readonly Value[] {
    return [...(this.#byFirst.get(first)?.values() ?? [])];
  }

  *values(): Iterable<Value> {
    for (const values of this.#byFirst.values()) yield* values.values();
  }
}
