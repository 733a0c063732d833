/**
 * Node report: the exchange that a node makes with the store about once a second. It renews the
 * node's lease, reports what the node has observed, and returns the node's shares of the limits that
 * all nodes share. A store computes no fairness: a node asks for what it thinks is fair, and the
 * store grants at most what is left. A share is valid as long as the node's lease, or until the next
 * report of the destination.
 */
import type { DestinationRow } from "./destination-row.ts";

/** A rate is reserved for at most this long ahead, so that no node takes the tokens of the others. */
export const RESERVED_MS = 1000;

export interface NodeReport {
  readonly nodeId: string;
  /**
   * Increases with each report of the node. A call that was reported as failed may reach the store later
   * than the next one, or than `retire`. A shared store rejects it then, and nothing changes.
   */
  readonly round: number;
  /** Engine time, for `latestAt`. */
  readonly now: number;
  /** The lease ends this long after the store's clock. 0: now. */
  readonly leaseMs: number;
  /**
   * The node finishes its attempts and claims nothing more. It keeps its lease, but it is not in the
   * list of nodes, so that the others claim from its partitions.
   */
  readonly isLeaving: boolean;
  /**
   * True: the node wants to take whole limits, without a share of each destination. The store agrees
   * if no other node holds a lease, or if it has agreed before and the lease has not ended since. While
   * it does, other nodes get no shares.
   */
  readonly takesAll: boolean;
  /** The destinations that the node uses. */
  readonly destinations: readonly DestinationReport[];
}

export interface DestinationReport {
  readonly tenantId: string;
  readonly name: string;
  /** The version of its row that the node knows. */
  readonly version: number;
  /** The node's own calls within the breaker's window. */
  readonly calls: number;
  readonly failures: number;
  readonly slowCalls: number;
  /**
   * How many attempts the node would like to run at once. If it is 0, and nothing is wanted or used,
   * the node gives up its share.
   */
  readonly demand: number;
  /** The limit on attempts at once. Null: there is none. */
  readonly slots: SlotUse | null;
  /** The limit on retries at once. Null: there is none. */
  readonly retrySlots: SlotUse | null;
  /** Null: there is no limit on the rate. */
  readonly rate: RateUse | null;
  /** The retries that the retry budget always allows, if there are too few to divide. Null: not. */
  readonly retryRate: RateUse | null;
}

export interface SlotUse {
  /** The limit for the whole fleet. */
  readonly limit: number;
  readonly wanted: number;
  /**
   * What this node runs now, or may start before it gets the response. It counts until the next report,
   * even without a share.
   */
  readonly used: number;
}

export interface RateUse {
  /** More than 0. */
  readonly perSecond: number;
  /** At least 1. */
  readonly burst: number;
  /** The number of tokens that the node would like to use until the next exchange. */
  readonly wanted: number;
}

export interface Renewal {
  /** The store's clock. */
  readonly now: number;
  /** The lease had ended before, so other nodes may have taken over the node's claims. */
  readonly wasLapsed: boolean;
  readonly takesAll: boolean;
  /** The nodes that hold a lease and are not leaving, in ascending order. */
  readonly nodes: readonly string[];
  /** At the index of each reported destination. */
  readonly destinations: readonly DestinationShare[];
}

export interface DestinationShare {
  /** The stored row, if its version is not the reported one. */
  readonly row: DestinationRow | null;
  /** At most `wanted`, and with the shares and running attempts of all other nodes at most `limit`. */
  readonly slots: number;
  /** The same, and at most `slots` if that is limited too: a retry needs both. */
  readonly retrySlots: number;
  /** Null: no token was reserved. */
  readonly rate: RateReservation | null;
  readonly retryRate: RateReservation | null;
  /** The sums of the latest reports of the other nodes that hold a lease. */
  readonly others: OtherNodes;
}

/** `count` tokens: one at `startAt`, and one every `1000 / perSecond` ms after it. */
export interface RateReservation {
  /** Epoch ms, not rounded. It may be in the past, because a burst may be used at once. */
  readonly startAt: number;
  readonly count: number;
}

export interface OtherNodes {
  readonly calls: number;
  readonly failures: number;
  readonly slowCalls: number;
  /** The number of nodes with a demand above 0. */
  readonly demanding: number;
  readonly demand: number;
}

/** The shares of a node that is alone. */
export const NO_OTHERS: OtherNodes = {
  calls: 0,
  failures: 0,
  slowCalls: 0,
  demanding: 0,
  demand: 0,
};

/**
 * Reserves tokens of a rate. `nextAt` is the instant of the first token that nobody has reserved; 0 if
 * none was reserved yet. Stores that run their own language do the same (GCRA): a token is earned
 * every `1000 / perSecond` ms, and at most `burst` are kept.
 */
export function reserveRate(
  { perSecond, burst, wanted }: RateUse,
  nextAt: number,
  now: number,
): { readonly reservation: RateReservation | null; readonly nextAt: number } {
  const intervalMs = 1000 / perSecond;
  const startAt = Math.max(nextAt, now - (burst - 1) * intervalMs);
  const room = Math.floor((now + RESERVED_MS - startAt) / intervalMs) + 1;
  const count = Math.min(wanted, room);
  if (count <= 0) return { reservation: null, nextAt };
  return { reservation: { startAt, count }, nextAt: startAt + count * intervalMs };
}

/** The round of a retired node in a shared store: every report that arrives later is older. */
export const RETIRED_ROUND: number = Number.MAX_SAFE_INTEGER;

/** A shared store knows a retired node for this long. No report of it is under way afterwards. */
export const RETIRED_MS = 60_000;

/** The error of a report that arrives after a later one of the same node, or after `retire`. */
export const LATE_REPORT = "a later report of the node was stored";
