/**
 * Fleet: many clients with one job each call one server that has an outage. Each client has one
 * pending event, so a timing wheel can run a million clients. The waits come from core's compiled
 * policy. Fleets with guards run in `guarded-fleet.ts`; tiers, open traffic and hedges in `calls.ts`.
 */

import type { Trace } from "../../events/trace.ts";
import {
  advanceWheel,
  createWheel,
  MEMBER_MASK,
  PAYLOAD,
  payloadOf,
  popEntry,
  pushEntry,
  type Wheel,
} from "../../events/wheel.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  OFFERED,
  recordQueue,
  type Tally,
} from "../../measure/tally.ts";
import type { WorldRun } from "../../measure/world-run.ts";
import { drawsOf, nextDraw } from "../../random/draws.ts";
import { type CallsScenario, isPlainTier, type Tier } from "../../scenario/scenario.ts";
import type { ClosedClients } from "../../scenario/scenario-document.ts";
import { nextWait, stopReason, type Waits, waitsOf } from "../../schedule/waits.ts";
import type { Condition, Timeline } from "../client-server/timeline.ts";
import { createFleetServer, type FleetServer, serve } from "./fleet-server.ts";
import { type FleetSetup, fleetRun } from "./fleet-setup.ts";
import { runGuardedFleet } from "./guarded-fleet.ts";

/** The state of a fleet. Its only event is the arrival of a client. */
interface Fleet extends FleetServer {
  readonly waits: Waits;
  readonly wheel: Wheel;
  readonly tally: Tally;
  readonly previousMs: Float64Array;
  readonly startedAt: Float64Array;
  readonly hangMs: number;
  /** No client waits longer for its call. */
  readonly budgetMs: number;
}

export function runFleet(
  scenario: CallsScenario,
  seed: number | string,
  trace: Trace | undefined,
): WorldRun {
  if (!isPlainTier(scenario.tiers[0] as Tier)) return runGuardedFleet(scenario, seed, trace);
  return fleetRun(scenario, (setup) => {
    const fleet = createFleet(setup);
    start(fleet, setup.clients);
    runEvents(fleet, setup.timeline, seed, trace);
  });
}

function createFleet({ clients, tier, tally }: FleetSetup): Fleet {
  const { count, startSpreadMs = 0 } = clients;
  const { destination, server } = tier;
  // Listed one by one instead of spread, so V8 knows the shape of the object.
  const { failureRate, latencyMs, fullMs, serviceMs } = createFleetServer(server);
  return {
    waits: waitsOf(destination.policy),
    wheel: createWheel(count),
    tally,
    previousMs: new Float64Array(destination.policy.jitterType === "DECORRELATED" ? count : 0),
    startedAt: new Float64Array(startSpreadMs > 0 ? count : 0),
    hangMs: destination.policy.attemptTimeoutMs,
    budgetMs: destination.policy.totalBudgetMs,
    failureRate,
    latencyMs,
    fullMs,
    serviceMs,
    freeAt: 0,
  };
}

/** Schedules the first calls, all at once or evenly spread, and counts them as offered. */
function start({ wheel, tally, startedAt }: Fleet, clients: ClosedClients): void {
  const { count, startSpreadMs = 0 } = clients;
  tally.calls = count;
  if (startSpreadMs === 0) countAt(tally, OFFERED, 0, count);
  for (let client = 0; client < count; client++) {
    const at = Math.floor((startSpreadMs * client) / count);
    if (startSpreadMs > 0) {
      startedAt[client] = at;
      countAt(tally, OFFERED, at);
    }
    pushEntry(wheel, client, at);
  }
}

function runEvents(
  fleet: Fleet,
  timeline: Timeline,
  seed: number | string,
  trace: Trace | undefined,
): void {
  const { wheel, tally } = fleet;
  const draws = drawsOf(seed, "server").state;
  const jitter = drawsOf(seed, "jitter").state;
  const visit = { draws, jitter, trace };
  while (advanceWheel(wheel)) {
    const { now } = wheel;
    const condition = timeline.conditionAt(now, 0);
    const failedAt = condition.hangs ? now + fleet.hangMs : now;
    const arrivals = visitTick(fleet, condition, failedAt, visit);
    countArrivals(tally, now, arrivals);
    recordQueue(tally, now, Math.max(0, fleet.freeAt - now));
  }
}

interface Visit {
  readonly draws: Int32Array;
  readonly jitter: Int32Array;
  readonly trace: Trace | undefined;
}

/**
 * Handles all arrivals of this instant, in order, and returns their number. The payload of an entry
 * is how often its client has failed, because every event needs it.
 */
function visitTick(fleet: Fleet, condition: Condition, failedAt: number, visit: Visit): number {
  return condition.down && isPlain(fleet, failedAt)
    ? refuseAll(fleet, failedAt, visit)
    : visitEach(fleet, condition, failedAt, visit);
}

/** True if a wait depends only on the attempt number and the draw. */
function isPlain({ waits, previousMs, startedAt }: Fleet, failedAt: number): boolean {
  return previousMs.length + startedAt.length === 0 && failedAt <= waits.freeMs;
}

/** An outage: no client is served. A short loop, because large fleets spend most of the run here. */
function refuseAll(fleet: Fleet, failedAt: number, visit: Visit): number {
  const { waits, wheel } = fleet;
  const { jitter, trace } = visit;
  const { draws } = waits.compiled;
  let arrivals = 0;
  let waitedMs = 0;
  for (let entry = popEntry(wheel); entry >= 0; entry = popEntry(wheel)) {
    arrivals++;
    if (trace !== undefined) trace.add(wheel.now, 0, entry & MEMBER_MASK);
    const failed = entry + PAYLOAD;
    const waitMs = nextWait(waits, payloadOf(failed), failedAt, 0, draws ? nextDraw(jitter) : 0);
    if (waitMs < 0) {
      lose(fleet, failed, waitMs, failedAt);
      continue;
    }
    waitedMs += waitMs;
    pushEntry(wheel, failed, failedAt + waitMs);
  }
  fleet.tally.waitedMs += waitedMs;
  return arrivals;
}

function visitEach(fleet: Fleet, condition: Condition, failedAt: number, visit: Visit): number {
  const { wheel } = fleet;
  const { now } = wheel;
  const { draws, jitter, trace } = visit;
  const isRandom = fleet.waits.compiled.draws;
  const failShare = Math.max(condition.failShare, fleet.failureRate);
  let arrivals = 0;
  for (let entry = popEntry(wheel); entry >= 0; entry = popEntry(wheel)) {
    arrivals++;
    const isFailed = condition.down || (failShare > 0 && nextDraw(draws) < failShare);
    const doneAt = isFailed ? -1 : serve(fleet, now);
    trace?.add(now, doneAt < 0 ? 0 : 1, entry & MEMBER_MASK);
    if (doneAt >= 0) succeed(fleet, entry, doneAt);
    else retry(fleet, entry + PAYLOAD, failedAt, isRandom ? nextDraw(jitter) : 0);
  }
  return arrivals;
}

/** `startedAt` is empty if all clients start at 0, because a million clients must fit into the cache. */
function startOf({ startedAt }: Fleet, entry: number): number {
  return startedAt.length === 0 ? 0 : (startedAt[entry & MEMBER_MASK] as number);
}

/** Counts a success, unless the response comes after the client's total budget. */
function succeed(fleet: Fleet, entry: number, doneAt: number): void {
  const { tally } = fleet;
  const tookMs = doneAt - startOf(fleet, entry);
  if (tookMs >= fleet.budgetMs) {
    retry(fleet, entry + PAYLOAD, doneAt, 0);
    return;
  }
  tally.attempts += payloadOf(entry) + 1;
  countSucceeded(tally, doneAt, tookMs);
}

/** Schedules what follows a failure at `failedAt`. The payload of `failed` already counts it. */
function retry(fleet: Fleet, failed: number, failedAt: number, draw: number): void {
  const { waits, wheel, previousMs } = fleet;
  const client = failed & MEMBER_MASK;
  const elapsedMs = Math.min(fleet.budgetMs, failedAt - startOf(fleet, failed));
  const previous = previousMs.length === 0 ? 0 : (previousMs[client] as number);
  const waitMs = nextWait(waits, payloadOf(failed), elapsedMs, previous, draw);
  if (waitMs < 0) {
    lose(fleet, failed, waitMs, startOf(fleet, failed) + elapsedMs);
    return;
  }
  if (previousMs.length > 0) previousMs[client] = waitMs;
  fleet.tally.waitedMs += waitMs;
  pushEntry(wheel, failed, failedAt + waitMs);
}

function lose({ tally }: Fleet, failed: number, stop: number, failedAt: number): void {
  tally.attempts += payloadOf(failed);
  countLost(tally, stopReason(stop), failedAt);
}
