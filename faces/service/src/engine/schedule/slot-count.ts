/**
 * Slot count: the slots of one limit on running attempts, which tenants share. Core's `fairRoom`
 * divides them while more than one tenant uses the node.
 */
import { fairRoom } from "@redrive/core";

export class SlotCount {
  /** May be lowered for a while. Slots that are in use then stay in use. */
  max: number;
  #used = 0;
  /** Only tenants that use a slot. */
  readonly #byTenant = new Map<string, number>();

  constructor(max: number) {
    this.max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** How many slots the tenant may take now. `isShared`: the node has several tenants. */
  room(tenantId: string, isShared: boolean): number {
    if (!isShared) return Math.max(0, this.max - this.#used);
    return fairRoom(this.max, this.#used, this.#byTenant.get(tenantId) ?? 0);
  }

  /** Takes slots, or returns them if `count` is negative. */
  add(tenantId: string, count: number): void {
    this.#used += count;
    const own = (this.#byTenant.get(tenantId) ?? 0) + count;
    if (own === 0) this.#byTenant.delete(tenantId);
    else this.#byTenant.set(tenantId, own);
  }
}
