/**
 * Destination health: the state of a destination, from the row that all nodes share, the guards of
 * this node, and the counts of its tasks.
 */
import {
  type Admission,
  adaptiveRateReadyAt,
  type BreakerState,
  budgetAllows,
  concurrencyLimit,
  type Guards,
  quantileMs,
  rateReadyAt,
} from "@redrive/core";
import type { HeldLane } from "../engine/destination/waiting-lane.ts";
import type { DisabledTarget, ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { readDestination } from "../model/stored-documents.ts";
import type { StoredDestinationState, TaskCounts } from "../model/task-query.ts";
import type { RecentAttempts } from "./activity/recent-attempts.ts";
import { disabledTargetsOf, shownDocument } from "./delivery-document.ts";

export interface DestinationHealth {
  readonly name: string;
  /** As configured, with placeholders for signing secrets; null: all defaults. */
  readonly document: ServiceDocument | null;
  /** Why this version cannot read the document, so that its tasks are held; null: it can. */
  readonly unreadable: string | null;
  readonly pausedAt: number | null;
  /** Target URLs that responded 410 (`disableOnGone`). */
  readonly disabledTargets: readonly DisabledTarget[];
  /** No call before this instant (Retry-After); 0: no gate. */
  readonly gateUntil: number;
  readonly breakerState: BreakerState;
  readonly openUntil: number;
  /** The rate allows no call before this instant; 0: no limit, or a call is allowed now. */
  readonly rateUntil: number;
  readonly retryBudget: "off" | "empty" | "open";
  readonly concurrency: { readonly inFlight: number; readonly limit: number } | null;
  /** Of this node's calls; null: none yet. */
  readonly latency: { readonly p50Ms: number; readonly p99Ms: number } | null;
  /** Attempts of the last five minutes on this node. Without the HTTP API, none are counted. */
  readonly recent: RecentAttempts;
  /** Tasks by status, without zeros. */
  readonly tasks: TaskCounts;
  /** Waiting and in flight. */
  readonly backlog: number;
  /** When the first waiting task is due; null: none waits. */
  readonly nextDueAt: number | null;
  /** The due tasks that a guard holds on this node, by lane. */
  readonly held: readonly HeldLane[];
}

export interface DestinationHealthPage {
  readonly destinations: readonly DestinationHealth[];
  /** Null on the last page. A page may be short or empty before. */
  readonly cursor: string | null;
}

/** What this node knows about a destination besides its guards. */
export interface NodeFacts {
  readonly held: readonly HeldLane[];
  readonly recent: RecentAttempts;
}

export function healthOfDestination(
  { row, tasks, nextDueAt }: StoredDestinationState,
  { guards }: Admission,
  now: number,
  { held, recent }: NodeFacts,
): DestinationHealth {
  const { name, pausedAt, gateUntil, breakerState, openUntil } = row;
  const document = shownDocument(row.document) as ServiceDocument | null;
  const reading = readDestination(row.document);
  return {
    name,
    document,
    unreadable: reading.kind === "unreadable" ? reading.reason : null,
    pausedAt,
    disabledTargets: disabledTargetsOf(row.document),
    gateUntil,
    breakerState,
    openUntil,
    rateUntil: rateUntilOf(guards, now),
    retryBudget: budgetOf(guards, now),
    // Without a limit, slots are counted only to let calls follow a gate one by one.
    concurrency: document?.concurrency === false ? null : slotsOf(guards),
    latency: latencyOf(guards, now),
    recent,
    tasks,
    backlog: (tasks.PENDING ?? 0) + (tasks.IN_FLIGHT ?? 0),
    nextDueAt,
    held,
  };
}

function rateUntilOf({ rate, adaptiveRate }: Guards, now: number): number {
  const fixedAt = rate ? rateReadyAt(rate, now) : now;
  const readyAt = Math.max(fixedAt, adaptiveRate ? adaptiveRateReadyAt(adaptiveRate, now) : now);
  return readyAt > now ? readyAt : 0;
}

function budgetOf({ retryBudget }: Guards, now: number): DestinationHealth["retryBudget"] {
  if (retryBudget === undefined) return "off";
  return budgetAllows(retryBudget, now, false) ? "open" : "empty";
}

function slotsOf({ concurrency }: Guards): DestinationHealth["concurrency"] {
  if (concurrency === undefined) return null;
  return { inFlight: concurrency.inFlight, limit: concurrencyLimit(concurrency) };
}

function latencyOf({ latency }: Guards, now: number): DestinationHealth["latency"] {
  const p50Ms = quantileMs(latency, now, 0.5);
  const p99Ms = quantileMs(latency, now, 0.99);
  return p50Ms === undefined || p99Ms === undefined ? null : { p50Ms, p99Ms };
}
