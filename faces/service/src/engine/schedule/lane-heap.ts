/**
 * Lane heap: lanes ordered by the instant of their next check. A lane has at most one valid entry:
 * a new entry gets a new stamp, which makes the older entries of the lane stale.
 */
import { createHeap } from "../../collections/heap.ts";
import { LANES } from "../../model/task.ts";
import type { DestinationLane } from "../destination/destination-runtime.ts";

export interface LaneEntry {
  readonly at: number;
  /** The lane's due instant when the entry was made. */
  readonly dueAt: number;
  readonly lane: DestinationLane;
  readonly stamp: number;
  readonly sequence: number;
}

export class LaneHeap {
  readonly #heap = createHeap<LaneEntry>(isBefore);
  #sequence = 0;

  /** The lane is to be checked at that instant. It is then neither blocked nor parked. */
  push(lane: DestinationLane, at: number): void {
    lane.blocked = false;
    lane.parked = false;
    const { dueAt } = lane;
    this.#heap.push({ at, dueAt, lane, stamp: ++lane.stamp, sequence: ++this.#sequence });
  }

  /** The earliest valid entry. */
  peek(): LaneEntry | undefined {
    for (let top = this.#heap.peek(); top !== undefined; top = this.#heap.peek()) {
      if (top.stamp === top.lane.stamp) return top;
      this.#heap.pop();
    }
    return undefined;
  }

  pop(): void {
    this.#heap.pop();
  }
}

/** At one instant: the lane whose task was due first, then first attempts before retries. */
function isBefore(a: LaneEntry, b: LaneEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  const rank = LANES.indexOf(a.lane.lane) - LANES.indexOf(b.lane.lane);
  return rank === 0 ? a.sequence < b.sequence : rank < 0;
}
