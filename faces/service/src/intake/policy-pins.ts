/**
 * Policy pins: which policies tasks that are about to be stored use, and which are being removed. A
 * pinned policy is not removed, and a policy that is being removed is not chosen.
 */

/** Beyond this number, unused entries are removed. */
const MAX_ENTRIES = 10_000;

export class PolicyPins {
  /** Number of tasks that are about to be stored, by the policy that they use. */
  readonly #pins = new Map<string, number>();
  readonly #removals = new Map<string, Promise<boolean>>();

  pin(key: string, change: 1 | -1): void {
    const pins = (this.#pins.get(key) ?? 0) + change;
    if (pins === 0 && this.#pins.size > MAX_ENTRIES) this.#pins.delete(key);
    else this.#pins.set(key, pins);
  }

  isPinned(key: string): boolean {
    return (this.#pins.get(key) ?? 0) > 0;
  }

  /** The removal that is under way, if any. */
  removalOf(key: string): Promise<boolean> | undefined {
    return this.#removals.get(key);
  }

  /** Nobody can choose the policies until the removal ends. */
  async remove(keys: readonly string[], removal: Promise<boolean>): Promise<boolean> {
    for (const key of keys) this.#removals.set(key, removal);
    try {
      return await removal;
    } finally {
      for (const key of keys) if (this.#removals.get(key) === removal) this.#removals.delete(key);
    }
  }
}
