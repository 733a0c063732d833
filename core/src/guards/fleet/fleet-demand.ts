/**
 * Fleet demand: how much of a limit that several nodes share one node asks for. Nodes that need more
 * than an equal part get equal parts, and an unused part is available to the others. A ledger grants at
 * most what is left, so the sum never exceeds the limit, however old the reports of the others are.
 */

export interface SlotDemand {
  /** The limit of all nodes together. */
  readonly limit: number;
  /** The attempts that this node would like to run at once. */
  readonly demand: number;
  /** The other nodes with a demand, and the sum of their demands. */
  readonly demanding: number;
  readonly othersDemand: number;
  /** The other nodes without a demand. */
  readonly idle: number;
  /** How long this node has had a slot of a limit that is smaller than the number of nodes. */
  readonly heldMs: number;
}

/** Idle nodes may find this share of the limit, so that their next task need not wait. */
const SPARE_SHARE = 1 / 8;

/** A node leaves a slot that others need to them after this time. */
export const MAX_HELD_MS = 2000;

/** The number of slots to ask for. */
export function wantedSlots({
  limit,
  demand,
  demanding,
  othersDemand,
  idle,
  heldMs,
}: SlotDemand): number {
  const spare = Math.min(idle, Math.floor(limit * SPARE_SHARE));
  if (demanding === 0) return Math.min(demand, limit - spare);
  if (isScarce(limit, demanding)) return heldMs >= MAX_HELD_MS ? 0 : Math.min(1, demand);
  // Units that cannot be divided go to the node that asks first.
  const equalPart = Math.ceil(limit / (demanding + 1));
  return Math.min(demand, Math.max(equalPart, limit - spare - othersDemand));
}

/** Are there fewer slots than nodes that need one? */
export function isScarce(limit: number, demanding: number): boolean {
  return limit <= demanding;
}

/** The number of tokens of a rate to ask for, for the next exchange. */
export function wantedTokens(perSecond: number, demand: number, demanding: number): number {
  if (demand === 0) return 0;
  return Math.max(1, Math.ceil(perSecond / (demanding + 1)));
}
