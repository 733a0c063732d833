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
  type DestinationDocument,
  type Guards,
  isObject,
  quantileMs,
  rateReadyAt,
} from "@redrive/core";
import type { DestinationRow } from "../model/destination-row.ts";
import { parseStored, readDestination } from "../model/stored-documents.ts";
import type { TaskStatus } from "../model/task.ts";
import type { TaskCount } from "../model/task-query.ts";

export interface DestinationHealth {
  readonly name: string;
  /** As configured; null: all defaults. */
  readonly document: DestinationDocument | null;
  /** Why this version cannot read the document, so that its tasks are held; null: it can. */
  readonly unreadable: string | null;
  readonly pausedAt: number | null;
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
  /** Tasks by status, without zeros. */
  readonly tasks: Readonly<Partial<Record<TaskStatus, number>>>;
  /** Waiting and in flight. */
  readonly backlog: number;
  /** When the first waiting task is due, as far as this node knows; null: none waits. */
  readonly nextDueAt: number | null;
}

export interface HealthParts {
  readonly row: DestinationRow;
  readonly admission: Admission;
  /** The earliest due instants of its lanes; Infinity for an empty lane. */
  readonly dueAts: readonly number[];
  /** Of its own tasks. */
  readonly counts: readonly TaskCount[];
  readonly now: number;
}

/** Grouped once: scanning all counts for each of ten thousand destinations takes seconds. */
export function byDestination(
  counts: readonly TaskCount[],
): ReadonlyMap<string, readonly TaskCount[]> {
  const sorted = new Map<string, TaskCount[]>();
  for (const count of counts) {
    const own = sorted.get(count.destination);
    if (own === undefined) sorted.set(count.destination, [count]);
    else own.push(count);
  }
  return sorted;
}

export function healthOfDestination(parts: HealthParts): DestinationHealth {
  const { row, admission, dueAts, counts, now } = parts;
  const { guards } = admission;
  const { name, pausedAt, gateUntil, breakerState, openUntil } = row;
  const document = documentOf(row);
  const reading = readDestination(row.document);
  const tasks = Object.fromEntries(counts.map(({ status, count }) => [status, count]));
  return {
    name,
    document,
    unreadable: reading.kind === "unreadable" ? reading.reason : null,
    pausedAt,
    gateUntil,
    breakerState,
    openUntil,
    rateUntil: rateUntilOf(guards, now),
    retryBudget: budgetOf(guards, now),
    // Without a limit, slots are counted only to let calls follow a gate one by one.
    concurrency: document?.concurrency === false ? null : slotsOf(guards),
    latency: latencyOf(guards, now),
    tasks,
    backlog: (tasks["PENDING"] ?? 0) + (tasks["IN_FLIGHT"] ?? 0),
    // A lane learns only at its next claim that its last task was canceled.
    nextDueAt: tasks["PENDING"] === undefined ? null : earliestOf(dueAts),
  };
}

/** Null also if it is not a JSON object. */
function documentOf({ document }: DestinationRow): DestinationDocument | null {
  const stored = document === null ? null : parseStored(document);
  return isObject(stored) ? stored : null;
}

function rateUntilOf({ rate, adaptiveRate }: Guards, now: number): number {
  const fixedAt = rate ? rateReadyAt(rate, now) : now;
  const readyAt = Math.max(fixedAt, adaptiveRate ? adaptiveRateReadyAt(adaptiveRate, now) : now);
  return readyAt > now ? readyAt : 0;
}

function earliestOf(dueAts: readonly number[]): number | null {
  const earliest = Math.min(...dueAts);
  return Number.isFinite(earliest) ? earliest : null;
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
