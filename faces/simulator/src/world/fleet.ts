/**
 * Fleet: many clients with one job each against one server, the world of the failover story. Each
 * client has one pending event, so a timing wheel carries a million of them; waits come from core's
 * kernel. Richer worlds (guards, tiers, open traffic) run in `calls.ts`.
 */
import { drawsOf, nextDraw } from "../chance/draws.ts";
import type { Trace } from "../engine/trace.ts";
import { nextWait, stopReason, type Waits, waitsOf } from "../engine/waits.ts";
import {
  advanceWheel,
  createWheel,
  MEMBER_MASK,
  NOTE,
  noteOf,
  popEntry,
  pushEntry,
  type Wheel,
} from "../engine/wheel.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  createTally,
  fairnessOfSpans,
  noteQueue,
  OFFERED,
  type Tally,
} from "../measure/tally.ts";
import {
  type CallsScenario,
  type ClosedClients,
  isPlainTier,
  type PhaseDocument,
  type Tier,
} from "../scenario.ts";
import { type Condition, type Timeline, timelineOf } from "./timeline.ts";
import type { WorldRun } from "./world-run.ts";

/** True if the fleet's engine gives the scenario's answer; the engine of `calls.ts` always does. */
export function isFleet({ clients, tiers, timeline }: CallsScenario): boolean {
  const [tier] = tiers;
  if (clients.kind !== "CLOSED" || clients.jobs !== 1 || tiers.length !== 1 || !tier) return false;
  return (
    isPlainTier(tier) &&
    tier.destination.hedge === undefined &&
    isSimpleServer(tier) &&
    timeline.every((phase) => isSimplePhase(phase, tier))
  );
}

/** One that answers in order, after a time that is known on arrival, before anybody times out. */
function isSimpleServer({ server, destination }: Tier): boolean {
  const { service = "FIXED", discipline = "FIFO", perCallMs = 0, hop = 0, shards = 1 } = server;
  const { latency = 0, capacityPerSecond, retryAfterMs, overload = "503" } = server;
  if (service !== "FIXED" || discipline !== "FIFO" || perCallMs > 0 || hop !== 0) return false;
  if (typeof latency !== "number" || shards > 1 || retryAfterMs !== undefined) return false;
  if (overload !== "503") return false;
  const { attemptTimeoutMs } = destination.policy;
  if (capacityPerSecond === undefined) return latency < attemptTimeoutMs;
  const { queueMs = attemptTimeoutMs } = server;
  // Its own service, and the rest of the one under way that the queue's bound does not see.
  return latency + queueMs + 2000 / capacityPerSecond < attemptTimeoutMs;
}

/** How long a queue takes whose server stops or slows down later is not known on arrival. */
function isSimplePhase({ kind, mode, atMs }: PhaseDocument, { server }: Tier): boolean {
  if (kind === "SLOW" || kind === "FAILOVER" || kind === "SPIKE") return false;
  if (kind === "PARTIAL" || server.capacityPerSecond === undefined) return true;
  return kind === "OUTAGE" && mode !== "HANG" && atMs === 0;
}

/** Everything a fleet keeps; `arrive` is its only event. */
interface Fleet {
  readonly waits: Waits;
  readonly wheel: Wheel;
  readonly tally: Tally;
  readonly previousMs: Float64Array;
  readonly startedAt: Float64Array;
  readonly hangMs: number;
  /** No call is waited for longer. */
  readonly budgetMs: number;
  /** Share of calls that the server fails by itself. */
  readonly failureRate: number;
  readonly latencyMs: number;
  /** Who would wait longer than this is refused. */
  readonly fullMs: number;
  readonly serviceMs: number;
  /** When the server will have finished what it has accepted. */
  freeAt: number;
}

export function runFleet(
  scenario: CallsScenario,
  seed: number | string,
  trace: Trace | undefined,
): WorldRun {
  const timeline = timelineOf(scenario.timeline, 0, 0);
  const fleet = createFleet(scenario, timeline.endMs);
  start(fleet, scenario.clients as ClosedClients);
  drain(fleet, timeline, seed, trace);
  const { tally } = fleet;
  return {
    engine: "fleet",
    tally,
    fairness: fairnessOfSpans(tally),
    triggerStartMs: timeline.startMs,
    triggerEndMs: timeline.endMs,
  };
}

function createFleet(scenario: CallsScenario, troubleEndMs: number): Fleet {
  const { horizonMs, windowMs } = scenario;
  const { count, startSpreadMs = 0 } = scenario.clients as ClosedClients;
  const { destination, server } = scenario.tiers[0] as Tier;
  const { capacityPerSecond, queueMs = Number.POSITIVE_INFINITY, latency } = server;
  const serviceMs = capacityPerSecond === undefined ? 0 : 1000 / capacityPerSecond;
  return {
    waits: waitsOf(destination.policy),
    wheel: createWheel(count),
    tally: createTally({ horizonMs, windowMs, troubleEndMs }),
    previousMs: new Float64Array(destination.policy.jitterType === "DECORRELATED" ? count : 0),
    startedAt: new Float64Array(startSpreadMs > 0 ? count : 0),
    hangMs: destination.policy.attemptTimeoutMs,
    budgetMs: destination.policy.totalBudgetMs,
    failureRate: server.failureRate ?? 0,
    latencyMs: typeof latency === "number" ? latency : 0,
    fullMs: fullFrom(queueMs, serviceMs),
    serviceMs,
    freeAt: 0,
  };
}

/**
 * Servers count calls, not ms: so many may be ahead as are served within `queueMs`. The last of them
 * may be nearly done, and sums of service times are not exact.
 */
function fullFrom(queueMs: number, serviceMs: number): number {
  return (Math.ceil(queueMs / serviceMs) - 1 + 1e-6) * serviceMs;
}

/** First calls: at once, or evenly spread. Each is one call offered. */
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

function drain(
  fleet: Fleet,
  timeline: Timeline,
  seed: number | string,
  trace: Trace | undefined,
): void {
  const { wheel, tally } = fleet;
  const chance = drawsOf(seed, "server").state;
  const jitter = drawsOf(seed, "jitter").state;
  const visit = { chance, jitter, trace };
  while (advanceWheel(wheel)) {
    const { now } = wheel;
    const condition = timeline.conditionAt(now, 0);
    const failedAt = condition.hangs ? now + fleet.hangMs : now;
    const arrivals = visitTick(fleet, condition, failedAt, visit);
    countArrivals(tally, now, arrivals);
    noteQueue(tally, now, Math.max(0, fleet.freeAt - now));
  }
}

interface Visit {
  readonly chance: Int32Array;
  readonly jitter: Int32Array;
  readonly trace: Trace | undefined;
}

/**
 * Everybody who arrives at this instant, in order; how many there were. An entry's note is how often
 * its client has failed: what every event needs travels with the event.
 */
function visitTick(fleet: Fleet, condition: Condition, failedAt: number, visit: Visit): number {
  return condition.down && isPlain(fleet, failedAt)
    ? refuseAll(fleet, failedAt, visit)
    : visitEach(fleet, condition, failedAt, visit);
}

/** True if a wait depends on the number of the attempt and the draw alone. */
function isPlain({ waits, previousMs, startedAt }: Fleet, failedAt: number): boolean {
  return previousMs.length + startedAt.length === 0 && failedAt <= waits.freeMs;
}

/** An outage: nobody is served. Short, because a million clients spend most of their time here. */
function refuseAll(fleet: Fleet, failedAt: number, visit: Visit): number {
  const { waits, wheel } = fleet;
  const { jitter, trace } = visit;
  const { draws } = waits.kernel;
  let arrivals = 0;
  let waitedMs = 0;
  for (let entry = popEntry(wheel); entry >= 0; entry = popEntry(wheel)) {
    arrivals++;
    if (trace !== undefined) trace.note(wheel.now, 0, entry & MEMBER_MASK);
    const failed = entry + NOTE;
    const waitMs = nextWait(waits, noteOf(failed), failedAt, 0, draws ? nextDraw(jitter) : 0);
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
  const { draws } = fleet.waits.kernel;
  const { chance, jitter, trace } = visit;
  const failShare = Math.max(condition.failShare, fleet.failureRate);
  let arrivals = 0;
  for (let entry = popEntry(wheel); entry >= 0; entry = popEntry(wheel)) {
    arrivals++;
    const isFailed = condition.down || (failShare > 0 && nextDraw(chance) < failShare);
    const doneAt = isFailed ? -1 : serve(fleet, now);
    trace?.note(now, doneAt < 0 ? 0 : 1, entry & MEMBER_MASK);
    if (doneAt >= 0) succeed(fleet, entry, doneAt);
    else retry(fleet, entry + NOTE, failedAt, draws ? nextDraw(jitter) : 0);
  }
  return arrivals;
}

/** Arrays that every client would touch alike are left out: a million clients live by the cache. */
function startOf({ startedAt }: Fleet, entry: number): number {
  return startedAt.length === 0 ? 0 : (startedAt[entry & MEMBER_MASK] as number);
}

/** When the server will have answered, or -1 if its queue is full. */
function serve(fleet: Fleet, now: number): number {
  if (fleet.serviceMs === 0) return now + fleet.latencyMs;
  const beginAt = Math.max(now, fleet.freeAt);
  if (beginAt > now && beginAt - now > fleet.fullMs) return -1;
  fleet.freeAt = beginAt + fleet.serviceMs;
  return fleet.freeAt + fleet.latencyMs;
}

/** Unless the answer comes after the client's total budget: then nobody waits for it. */
function succeed(fleet: Fleet, entry: number, doneAt: number): void {
  const { tally } = fleet;
  const tookMs = doneAt - startOf(fleet, entry);
  if (tookMs >= fleet.budgetMs) {
    retry(fleet, entry + NOTE, doneAt, 0);
    return;
  }
  tally.attempts += noteOf(entry) + 1;
  countSucceeded(tally, doneAt, tookMs);
}

/** Asks core's kernel what follows the failure known at `failedAt`, which the note counts already. */
function retry(fleet: Fleet, failed: number, failedAt: number, draw: number): void {
  const { waits, wheel, previousMs } = fleet;
  const client = failed & MEMBER_MASK;
  const elapsedMs = Math.min(fleet.budgetMs, failedAt - startOf(fleet, failed));
  const previous = previousMs.length === 0 ? 0 : (previousMs[client] as number);
  const waitMs = nextWait(waits, noteOf(failed), elapsedMs, previous, draw);
  if (waitMs < 0) {
    lose(fleet, failed, waitMs, startOf(fleet, failed) + elapsedMs);
    return;
  }
  if (previousMs.length > 0) previousMs[client] = waitMs;
  fleet.tally.waitedMs += waitMs;
  pushEntry(wheel, failed, failedAt + waitMs);
}

function lose({ tally }: Fleet, failed: number, stop: number, failedAt: number): void {
  tally.attempts += noteOf(failed);
  countLost(tally, stopReason(stop), failedAt);
}
