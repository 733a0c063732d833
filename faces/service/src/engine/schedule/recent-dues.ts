/**
 * Recent dues: the tasks that this node has made wait since its last exchange. If the exchange shows
 * that another node leases their partition, that node may have loaded the partition before: it gets
 * hints about them.
 */
import type { LaneDue } from "../../model/lane-due.ts";

export class RecentDues {
  #dues: LaneDue[] = [];

  add(due: LaneDue): void {
    this.#dues.push(due);
  }

  /** All since the last call. */
  take(): readonly LaneDue[] {
    const dues = this.#dues;
    this.#dues = [];
    return dues;
  }

  /** The exchange failed, so they are still recent. */
  restore(dues: readonly LaneDue[]): void {
    this.#dues = [...this.#dues, ...dues];
  }
}
