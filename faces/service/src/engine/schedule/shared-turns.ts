/** Shared turns: what the schedulers of several shards share: the limits of the node, and the turns. */
import { type AttemptLimits, AttemptSlots } from "./attempt-slots.ts";
import { TurnCounter } from "./lane-heap.ts";

export class SharedTurns {
  readonly turns = new TurnCounter();
  readonly slots: AttemptSlots;

  constructor(limits: AttemptLimits) {
    this.slots = new AttemptSlots(limits, this.turns);
  }
}
