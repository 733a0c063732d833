/**
 * Fleet report: what a node reports of a destination that it shares with other nodes, and how it
 * applies the share that it gets.
 */
import {
  callCounts,
  type FleetShare,
  type ReservedTokens,
  reservedRetries,
  wantedSlots,
  wantedTokens,
} from "@redrive/core";
import {
  type DestinationReport,
  type DestinationShare,
  NO_OTHERS,
  type RateUse,
  type SlotUse,
} from "../../model/node-report.ts";
import { LANES } from "../../model/task.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import { type FleetPlace, reservedTokens } from "./fleet-state.ts";

/** A destination that was not used for this long gives its share back. */
const KEPT_MS = 10_000;

export function reportOf(destination: DestinationRuntime, now: number): DestinationReport {
  const { tenantId, name, row, admission, document } = destination;
  const { breaker } = admission.guards;
  const { concurrency } = document;
  const demand = demandOf(destination, now);
  const counts = breaker === undefined ? NO_OTHERS : callCounts(breaker, now);
  const { slots, retrySlots } = destination.fleetState;
  const { share } = admission;
  return {
    tenantId,
    name,
    version: row.version,
    calls: counts.calls,
    failures: counts.failures,
    slowCalls: counts.slowCalls,
    demand,
    slots: concurrency
      ? useOf(concurrency.max, admission.inFlight, share?.slots, slots.since)
      : null,
    retrySlots: concurrency
      ? useOf(
          concurrency.maxRetries,
          admission.retriesInFlight,
          share?.retrySlots,
          retrySlots.since,
        )
      : null,
    rate: rateOf(destination, demand, now),
    retryRate: retryRateOf(destination, now),
  };

  /**
   * Until the response arrives, the node uses its share, as far as it still wants it. So that part
   * counts as used. Otherwise a smaller grant, because another node still asks under a larger limit,
   * would free slots that this node is about to take.
   */
  function useOf(limit: number, running: number, held: number | undefined, since: number): SlotUse {
    const { fleetState } = destination;
    const { demanding, demand: othersDemand } = fleetState.others;
    const idle = Math.max(0, fleetState.nodes - 1 - demanding);
    const need = { limit, demand, demanding, othersDemand, idle, heldMs: now - since };
    const wanted = fleetState.isRowKnown ? wantedSlots(need) : 0;
    return { limit, wanted, used: Math.max(running, Math.min(held ?? 0, wanted)) };
  }
}

/** Is nothing left to report, so that the share can be given back? */
export function isUnused(
  { admission }: DestinationRuntime,
  { demand }: DestinationReport,
): boolean {
  return demand === 0 && admission.inFlight === 0;
}

/**
 * While tasks wait, a node would use the whole limit. A node that has used the destination lately keeps
 * one slot more than it uses, so that its next task need not wait for a share.
 */
function demandOf(destination: DestinationRuntime, now: number): number {
  const { admission, document, usedAt } = destination;
  if (destination.shardLanes.dueAt(LANES) <= now)
    return document.concurrency?.max ?? admission.inFlight + 1;
  return admission.inFlight + (now - usedAt < KEPT_MS ? 1 : 0);
}

function rateOf(destination: DestinationRuntime, demand: number, now: number): RateUse | null {
  const limit = destination.document.rate?.limit;
  if (limit === undefined) return null;
  const { perSecond, burst } = limit;
  const kept = destination.reserved.reduce((sum, tokens) => sum + comingOf(tokens, now), 0);
  const { demanding } = destination.fleetState.others;
  const wanted = Math.max(0, wantedTokens(perSecond, demand, demanding) - kept);
  return { perSecond, burst, wanted };
}

/** While a retry waits, the node reserves one at a time, because other nodes wait too. */
function retryRateOf(destination: DestinationRuntime, now: number): RateUse | null {
  const { retryBudget } = destination.document;
  const rate =
    retryBudget && reservedRetries(retryBudget, destination.fleetState.maxNodes(retryBudget, now));
  if (rate === undefined) return null;
  const isWaiting = destination.shardLanes.dueAt(["retry", "suspect"]) <= now;
  return { perSecond: rate.perSecond, burst: rate.burst, wanted: isWaiting ? 1 : 0 };
}

/** Tokens whose instant is still to come. */
function comingOf({ startAt, intervalMs, count, used }: ReservedTokens, now: number): number {
  const passed = Math.max(used, Math.ceil((now - startAt) / intervalMs));
  return Math.max(0, count - passed);
}

/** The share to use from now on. */
export function shareOf(
  destination: DestinationRuntime,
  { slots, retrySlots, rate }: DestinationShare,
  now: number,
): FleetShare {
  const { document } = destination;
  const perSecond = document.rate?.limit?.perSecond;
  const kept = destination.reserved.filter((tokens) => comingOf(tokens, now) > 0);
  if (rate !== null && perSecond !== undefined) {
    kept.push(reservedTokens(rate, 1000 / perSecond));
  }
  // Without a limit in the document, the guard only exists for the ramp after a gate.
  const isLimited = document.concurrency !== undefined;
  const all = Number.POSITIVE_INFINITY;
  return { slots: isLimited ? slots : all, retrySlots: isLimited ? retrySlots : all, rate: kept };
}

/** The shard that grants shares cannot be reached: the node uses an equal part of each limit. */
export function useEqualPart(
  { admission, document, fleetState, reserved }: DestinationRuntime,
  place: FleetPlace,
  now: number,
): void {
  if (admission.share === undefined) return;
  const kept = reserved.filter(({ used, count }) => used < count);
  admission.share = fleetState.equalPart(document, place, kept, now);
  admission.lacksShare = false;
}
