/**
 * Fleet: many clients with one job each call one server that has an outage. Each client has one
 * pending event, so a timing wheel can run a million clients. The waits come from core's compiled
 * policy. Fleets with guards have an engine of their own, in the second part; tiers, open traffic
 * and hedges run in `calls.ts`.
 */

import {
  type AdmissionRequest,
  type CallHistory,
  type CallRequest,
  classifyOutcome,
  decide,
  type Outcome,
  type Patience,
  type Permit,
  type Policy,
  timeoutOutcome,
  type Verdict,
} from "@redrive/core";
import { type Draws, drawsOf, nextDraw } from "../engine/draws.ts";
import { pushEvent } from "../engine/heap.ts";
import { assertAtMost, MAX_EVENTS, type Trace } from "../engine/run.ts";
import {
  advanceWheel,
  createEventQueue,
  createWheel,
  type EventQueue,
  MEMBER_MASK,
  PAYLOAD,
  payloadOf,
  popEntry,
  popNext,
  pushEntry,
  pushMember,
  type Wheel,
} from "../engine/wheel.ts";
import { type CallsScenario, isPlainTier, type Tier } from "../scenario/scenario.ts";
import type {
  ClosedClients,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { nextWait, stopReason, type Waits, waitsOf } from "../schedule/waits.ts";
import {
  admissionsOf,
  type Caller,
  createCaller,
  type Engine,
  expireCall,
  gatesOf,
  leaveGuards,
  onAlarm,
  requestSend,
} from "./caller.ts";
import {
  type Condition,
  FAILED,
  OK,
  REFUSED,
  responseOutcome,
  SILENT,
  THROTTLED,
  type Timeline,
  timelineOf,
} from "./server.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  createTally,
  fairnessOfDurations,
  OFFERED,
  recordQueue,
  type Tally,
  type WorldRun,
} from "./tally.ts";

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

// Guarded fleet: a fleet with guards, shared by all clients or one set per client. An attempt has
// two events, its start and its end. It uses the guards through `caller.ts`, as the general engine
// does, and a property test compares the two engines.

/** Events. The subject is a client, or a caller (ALARM). */
const START = 0;
/** An attempt is due. */
const DUE = 1;
/** An attempt gets its response, or is cut off. */
const END = 2;
const CUT = 3;
/** A waiting call has no time left; a caller's guards may admit waiting calls. */
const EXPIRE = 4;
const ALARM = 5;

/** The order at one instant, as in the general engine: timeouts come before responses. */
const RANKS = Uint8Array.of(3, 2, 1, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

interface GuardedFleet {
  readonly policy: Policy;
  readonly request: CallRequest;
  readonly admissions: readonly AdmissionRequest[];
  readonly server: CountingServer;
  readonly overload: number;
  readonly retryAfterMs: number | undefined;
  readonly timeline: Timeline;
  readonly queue: EventQueue;
  readonly tally: Tally;
  readonly callers: Caller[];
  readonly jitter: Draws;
  readonly draws: Draws;
  /** By client. */
  readonly startedAt: Float64Array;
  readonly sentAt: Float64Array;
  readonly previousMs: Float64Array;
  readonly attempts: Uint16Array;
  readonly throttled: Uint8Array;
  /** The response of the current attempt: see `server.ts`. */
  readonly response: Uint8Array;
  readonly permits: (Permit | undefined)[];
  now: number;
}

function runGuardedFleet(
  scenario: CallsScenario,
  seed: number | string,
  trace: Trace | undefined,
): WorldRun {
  return fleetRun(scenario, (setup) => {
    const fleet = createGuardedFleet(setup, scenario.patience, seed);
    addCallers(fleet, scenario, seed);
    startGuarded(fleet, setup.clients);
    runGuardedEvents(fleet, trace);
  });
}

function runGuardedEvents(fleet: GuardedFleet, trace: Trace | undefined): void {
  const { heap } = fleet.queue;
  for (let events = 0; popNext(fleet.queue); events++) {
    const { at, kind, subject } = heap;
    assertAtMost(events, MAX_EVENTS, "events");
    fleet.now = at;
    trace?.add(at, kind, subject);
    (HANDLERS[kind] as Handler)(fleet, subject);
  }
}

type Handler = (fleet: GuardedFleet, subject: number) => void;

const HANDLERS: readonly Handler[] = [
  onStart,
  requestAttempt,
  (fleet, client) =>
    end(fleet, client, responseOutcome(fleet.response[client] as number, fleet.retryAfterMs)),
  (fleet, client) =>
    end(fleet, client, timeoutOutcome(fleet.policy, fleet.now - (fleet.sentAt[client] as number))),
  (fleet, client) => expireCall(callerOf(fleet, client), client),
  ({ callers, queue }, index) => onAlarm(callers[index] as Caller, queue.heap.order),
];

function createGuardedFleet(
  { clients, tier, timeline, tally }: FleetSetup,
  patience: Patience,
  seed: number | string,
): GuardedFleet {
  const { count } = clients;
  const { destination, server } = tier;
  return {
    policy: destination.policy,
    request: { patience },
    admissions: admissionsOf({ patience }),
    server: createCountingServer(server),
    overload: server.overload === "429" ? THROTTLED : REFUSED,
    retryAfterMs: server.retryAfterMs,
    timeline,
    queue: createEventQueue(count, RANKS),
    tally,
    callers: [],
    jitter: drawsOf(seed, "jitter"),
    draws: drawsOf(seed, "server"),
    startedAt: new Float64Array(count),
    sentAt: new Float64Array(count),
    previousMs: new Float64Array(count),
    attempts: new Uint16Array(count),
    throttled: new Uint8Array(count),
    response: new Uint8Array(count),
    permits: [],
    now: 0,
  };
}

function addCallers(fleet: GuardedFleet, scenario: CallsScenario, seed: number | string): void {
  const { guards, clients, tiers } = scenario;
  const count = guards === "PER_CLIENT" ? (clients.count ?? 1) : 1;
  const random = drawsOf(seed, "guards");
  const engine = engineOf(fleet);
  for (let index = 0; index < count; index++) {
    const caller = createCaller(index, tiers[0] as Tier, fleet.request, engine, random, undefined);
    fleet.callers.push(caller);
  }
}

function engineOf(fleet: GuardedFleet): Engine {
  const { tally } = fleet;
  const { heap } = fleet.queue;
  return {
    now: () => fleet.now,
    historyOf: (client) => historyOf(fleet, client),
    send: (client, permit) => send(fleet, client, permit),
    end: (_client, reason) => countLost(tally, reason, fleet.now),
    setExpiry: (client, at) => pushEvent(heap, at, EXPIRE, client),
    setAlarm(index, at) {
      pushEvent(heap, at, ALARM, index);
      return heap.order;
    },
  };
}

function historyOf(fleet: GuardedFleet, client: number): CallHistory {
  return {
    attempt: fleet.attempts[client] as number,
    startedAt: fleet.startedAt[client] as number,
    previousDelayMs: fleet.previousMs[client] as number,
  };
}

/** Schedules the first calls, all at once or evenly spread. */
function startGuarded({ queue }: GuardedFleet, { count, startSpreadMs = 0 }: ClosedClients): void {
  for (let client = 0; client < count; client++) {
    pushMember(queue, (startSpreadMs * client) / count, START, client);
  }
}

function onStart(fleet: GuardedFleet, client: number): void {
  const { tally, startedAt, now } = fleet;
  startedAt[client] = now;
  tally.calls++;
  countAt(tally, OFFERED, now);
  requestAttempt(fleet, client);
}

function callerOf({ callers }: GuardedFleet, client: number): Caller {
  return (callers[client] ?? callers[0]) as Caller;
}

function admissionFor(fleet: GuardedFleet, client: number): AdmissionRequest {
  const isRetry = (fleet.attempts[client] as number) > 0;
  return fleet.admissions[
    isRetry ? 1 + (fleet.throttled[client] as number) : 0
  ] as AdmissionRequest;
}

function requestAttempt(fleet: GuardedFleet, client: number): void {
  requestSend(callerOf(fleet, client), client, admissionFor(fleet, client), 0);
}

/** Sends an attempt. The server is simple: its response and the time of it are known at once. */
function send(fleet: GuardedFleet, client: number, permit: Permit): void {
  const { tally, policy, startedAt, queue, now } = fleet;
  fleet.permits[client] = permit;
  fleet.sentAt[client] = now;
  fleet.attempts[client] = (fleet.attempts[client] as number) + 1;
  tally.attempts++;
  countArrivals(tally, now, 1);
  const doneAt = arrive(fleet, client);
  // Computed as in the general engine, because sums of durations are not exact.
  const leftMs = (startedAt[client] as number) + policy.totalBudgetMs - now;
  const cutAt = now + Math.min(policy.attemptTimeoutMs, leftMs);
  if (doneAt < cutAt) pushMember(queue, doneAt, END, client);
  else pushMember(queue, cutAt, CUT, client);
}

/** Stores the response in `response` and returns when it comes; infinite without one. */
function arrive(fleet: GuardedFleet, client: number): number {
  const { server, timeline, draws, response, tally, now } = fleet;
  const { down, hangs, failShare } = timeline.conditionAt(now, 0);
  if (down) {
    response[client] = hangs ? SILENT : REFUSED;
    return hangs ? Number.POSITIVE_INFINITY : now;
  }
  const share = Math.max(failShare, server.failureRate);
  const isFailed = share > 0 && draws.next() < share;
  const doneAt = isFailed ? -1 : serveCounted(server, now);
  if (!isFailed) recordQueue(tally, now, Math.max(0, server.freeAt - now));
  const refusal = isFailed ? FAILED : fleet.overload;
  response[client] = doneAt < 0 ? refusal : OK;
  return doneAt < 0 ? now : doneAt;
}

function end(fleet: GuardedFleet, client: number, outcome: Outcome): void {
  const { policy, tally, startedAt, sentAt, permits, now } = fleet;
  const verdict = classifyOutcome(policy, outcome);
  const permit = permits[client] as Permit;
  permits[client] = undefined;
  const durationMs = now - (sentAt[client] as number);
  leaveGuards(callerOf(fleet, client), permit, 0, outcome, verdict, durationMs);
  if (verdict === "success") countSucceeded(tally, now, now - (startedAt[client] as number));
  else fail(fleet, client, outcome, verdict);
}

/** An attempt failed: core decides what follows. */
function fail(fleet: GuardedFleet, client: number, outcome: Outcome, verdict: Verdict): void {
  const { policy, request, tally, queue, jitter, now } = fleet;
  fleet.throttled[client] = verdict === "throttled" ? 1 : 0;
  const gates = gatesOf(callerOf(fleet, client), admissionFor(fleet, client), 0);
  const history = historyOf(fleet, client);
  const decision = decide(policy, request, history, outcome, gates, now, jitter);
  if (decision.kind === "stop") {
    countLost(tally, decision.reason, now);
    return;
  }
  fleet.previousMs[client] = decision.ownDelayMs;
  const waitMs = decision.kind === "hold" ? decision.until - now : decision.delayMs;
  tally.waitedMs += waitMs;
  pushMember(queue, now + waitMs, DUE, client);
}

// Fleet setup: what both fleet engines start with, and their result.

interface FleetSetup {
  readonly clients: ClosedClients;
  readonly tier: Tier;
  readonly timeline: Timeline;
  readonly tally: Tally;
}

/** Runs a fleet, which has closed clients and one tier: see `isFleet`. */
function fleetRun(scenario: CallsScenario, run: (setup: FleetSetup) => void): WorldRun {
  const { clients, tiers, horizonMs, windowMs } = scenario;
  const timeline = timelineOf(scenario.timeline, 0, 0);
  const { startMs: triggerStartMs, endMs: triggerEndMs } = timeline;
  const tally = createTally({ horizonMs, windowMs, triggerEndMs });
  run({ clients: clients as ClosedClients, tier: tiers[0] as Tier, timeline, tally });
  const fairness = fairnessOfDurations(tally);
  return { engine: "fleet", tally, fairness, triggerStartMs, triggerEndMs };
}

// Fleet server: a server so simple that the response is known when a call arrives, and the check
// for scenarios that qualify.

/**
 * True if the fleet engine can run the scenario. The engine of `calls.ts` can run every scenario.
 */
export function isFleet({ clients, tiers, timeline }: CallsScenario): boolean {
  const [tier] = tiers;
  if (clients.kind !== "CLOSED" || clients.jobs !== 1 || tiers.length !== 1 || !tier) return false;
  return (
    tier.destination.hedge === undefined &&
    (isPlainTier(tier) ? isPlainServer(tier) : clients.think === undefined && takesTime(tier)) &&
    isSimpleServer(tier) &&
    timeline.every((phase) => isSimplePhase(phase, tier))
  );
}

/** The compiled policy supports neither hints nor throttling. */
function isPlainServer({ server }: Tier): boolean {
  return server.retryAfterMs === undefined && server.overload !== "429";
}

/** In the general engine, successes that take no time come after failures of the same instant. */
function takesTime({ server }: Tier): boolean {
  return server.capacityPerSecond !== undefined || (server.latency ?? 0) !== 0;
}

/**
 * True for a server that responds in order, after a time known on arrival, before any attempt times
 * out.
 */
function isSimpleServer({ server, destination }: Tier): boolean {
  const { service = "FIXED", discipline = "FIFO", perCallMs = 0, hop = 0, shards = 1 } = server;
  const { latency = 0, capacityPerSecond } = server;
  if (service !== "FIXED" || discipline !== "FIFO" || perCallMs > 0 || hop !== 0) return false;
  if (typeof latency !== "number" || shards > 1) return false;
  const { attemptTimeoutMs } = destination.policy;
  if (capacityPerSecond === undefined) return latency < attemptTimeoutMs;
  const { queueMs = attemptTimeoutMs } = server;
  // The call's own service time, and the rest of the current one, which the bound of the queue
  // ignores.
  return latency + queueMs + 2000 / capacityPerSecond < attemptTimeoutMs;
}

/** If the server can stop or slow down later, the time in its queue is not known on arrival. */
function isSimplePhase({ kind, mode, atMs }: PhaseDocument, { server }: Tier): boolean {
  if (kind === "SLOW" || kind === "FAILOVER" || kind === "SPIKE") return false;
  if (kind === "PARTIAL" || server.capacityPerSecond === undefined) return true;
  return kind === "OUTAGE" && mode !== "HANG" && atMs === 0;
}

interface FleetServer {
  /** Share of calls that the server fails at random. */
  readonly failureRate: number;
  readonly latencyMs: number;
  /** Calls that would wait longer are refused. */
  readonly fullMs: number;
  readonly serviceMs: number;
  /** When the server will have finished all accepted calls. */
  freeAt: number;
}

function createFleetServer(server: ServerDocument): FleetServer {
  const {
    capacityPerSecond,
    queueMs = Number.POSITIVE_INFINITY,
    latency,
    failureRate = 0,
  } = server;
  const serviceMs = capacityPerSecond === undefined ? 0 : 1000 / capacityPerSecond;
  return {
    failureRate,
    latencyMs: typeof latency === "number" ? latency : 0,
    fullMs: fullFrom(queueMs, serviceMs),
    serviceMs,
    freeAt: 0,
  };
}

/**
 * The bound of the queue is a number of calls: those that are served within `queueMs`. The call in
 * service may be nearly done, and sums of service times are not exact.
 */
function fullFrom(queueMs: number, serviceMs: number): number {
  return (Math.ceil(queueMs / serviceMs) - 1 + 1e-6) * serviceMs;
}

/** When the server will respond, or -1 if its queue is full. */
function serve(server: FleetServer, now: number): number {
  if (server.serviceMs === 0) return now + server.latencyMs;
  const beginAt = Math.max(now, server.freeAt);
  if (beginAt > now && beginAt - now > server.fullMs) return -1;
  server.freeAt = beginAt + server.serviceMs;
  return server.freeAt + server.latencyMs;
}

/** A server that counts the calls ahead of a new one exactly, for calls at fractions of a ms. */
interface CountingServer extends FleetServer {
  readonly queueMs: number;
  /** When each accepted call is served. Calls before `first` are done. */
  servedAt: number[];
  first: number;
}

function createCountingServer(server: ServerDocument): CountingServer {
  const { queueMs = Number.POSITIVE_INFINITY } = server;
  return { ...createFleetServer(server), queueMs, servedAt: [], first: 0 };
}

/** As `serve`, by the rule of `arrivalResult`. */
function serveCounted(server: CountingServer, now: number): number {
  const { servedAt, serviceMs, queueMs, latencyMs } = server;
  if (serviceMs === 0) return now + latencyMs;
  while ((servedAt[server.first] ?? Number.POSITIVE_INFINITY) <= now) server.first++;
  if (server.first > 1024 && 2 * server.first > servedAt.length) {
    server.servedAt = servedAt.slice(server.first);
    server.first = 0;
  }
  const ahead = server.servedAt.length - server.first;
  if (ahead > 0 && ahead * serviceMs >= queueMs) return -1;
  server.freeAt = Math.max(now, server.freeAt) + serviceMs;
  server.servedAt.push(server.freeAt);
  return server.freeAt + latencyMs;
}
