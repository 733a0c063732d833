/**
 * Earliest dues: the earliest instant of each lane and partition. Their number depends on the lanes, and
 * not on the tasks that wait in them.
 */
import type { LaneDue } from "../../model/lane-due.ts";

export class EarliestDues {
  readonly #dues = new Map<string, LaneDue>();

  constructor(dues: readonly LaneDue[] = []) {
    this.addAll(dues);
  }

  add(due: LaneDue): void {
    const key = `${due.partition}\n${due.lane}\n${due.tenantId}\n${due.destination}`;
    const known = this.#dues.get(key);
    if (known === undefined || due.dueAt < known.dueAt) this.#dues.set(key, due);
  }

  addAll(dues: readonly LaneDue[]): void {
    for (const due of dues) this.add(due);
  }

  /** All since the last call. */
  take(): readonly LaneDue[] {
    const dues = [...this.#dues.values()];
    this.#dues.clear();
    return dues;
  }
}
