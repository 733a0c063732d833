/** Waiting lane: the tasks of a destination that wait in one lane, as far as this node knows. */
import type { Lane } from "../task.ts";
import type { GuardedDestination } from "./guarded-destination.ts";

export interface WaitingLane {
  readonly destination: GuardedDestination;
  readonly lane: Lane;
  /** When the earliest of them is due; Infinity when none waits. */
  dueAt: number;
  /** Entries of the scheduler's heap with an older one are stale. */
  stamp: number;
  /** It is due, or soon is, but only a change at the destination lets it go on. */
  blocked: boolean;
  /** Likewise, but it waits for an instant, unless such a change lets it go on before. */
  parked: boolean;
}

/** The lanes of a destination that nothing is known to wait for. */
export function lanesOf(destination: GuardedDestination): Readonly<Record<Lane, WaitingLane>> {
  const lane = (name: Lane): WaitingLane => ({
    destination,
    lane: name,
    dueAt: Number.POSITIVE_INFINITY,
    stamp: 0,
    blocked: false,
    parked: false,
  });
  return { first: lane("first"), retry: lane("retry"), alone: lane("alone") };
}
