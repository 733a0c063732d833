/**
 * Turn queue: items of several tenants. Those that are taken together are divided equally among the
 * tenants that have items, so a tenant with many items delays the others by one round. The items of
 * one tenant keep their order.
 */
export class TurnQueue<Item> {
  /** In the order of the next turns. No list is empty. */
  readonly #byTenant = new Map<string, Item[]>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(tenantId: string, item: Item): void {
    this.#length++;
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) this.#byTenant.set(tenantId, [item]);
    else own.push(item);
  }

  /** Puts an item before the others of its tenant. */
  pushFirst(tenantId: string, item: Item): void {
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) {
      this.push(tenantId, item);
      return;
    }
    this.#length++;
    own.unshift(item);
  }

  /** Removes and returns at most `max` items. */
  take(max: number): Item[] {
    const items: Item[] = [];
    while (items.length < max && this.#length > 0) this.#takeRound(max, items);
    return items;
  }

  /** One turn of each tenant. A tenant that has more items is next after all others. */
  #takeRound(max: number, items: Item[]): void {
    let tenants = this.#byTenant.size;
    for (const [tenantId, own] of [...this.#byTenant]) {
      const left = max - items.length;
      if (left === 0) return;
      const taken = own.splice(0, Math.max(1, Math.floor(left / tenants--)));
      this.#length -= taken.length;
      for (const item of taken) items.push(item);
      this.#byTenant.delete(tenantId);
      if (own.length > 0) this.#byTenant.set(tenantId, own);
    }
  }
}
