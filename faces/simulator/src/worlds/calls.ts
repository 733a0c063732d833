/**
 * Calls: the general engine. Open or closed clients call tiers of servers under core's policies and
 * guards. It processes discrete events from a heap, one at a time.
 */

import {
  type AdmissionRequest,
  type CallHistory,
  classifyOutcome,
  decide,
  type HedgeOptions,
  type HoldReason,
  hedgeAfterMs,
  OPEN_GATES,
  type Outcome,
  type Permit,
  type Random,
  timeoutOutcome,
  type Verdict,
} from "@redrive/core";
import { drawsOf } from "../engine/draws.ts";
import { type DurationSampler, durationSampler, exponential } from "../engine/durations.ts";
import { popEvent, pushEvent } from "../engine/heap.ts";
import { assertAtMost, isProgressDue, MAX_EVENTS, type OnProgress } from "../engine/run.ts";
import { type CallsScenario, isPlainTier } from "../scenario/scenario.ts";
import type { ClosedClients, OpenClients } from "../scenario/scenario-document.ts";
import {
  type Caller,
  createCaller,
  type Engine,
  expireCall,
  gatesOf,
  leaveGuards,
  onAlarm,
  requestHedge,
  requestSend,
} from "./caller.ts";
import {
  ALARM,
  ARRIVAL,
  callerOf,
  createWorld,
  EXPIRE,
  FINISH,
  HEDGE,
  isAwaited,
  REACH,
  type RunOptions,
  release,
  respond,
  retain,
  SEND,
  SERVED,
  START,
  serverOf,
  TIMEOUT,
  takeRow,
  tierOf,
  WAKE,
  type World,
} from "./calls-world.ts";
import {
  ACCEPTED,
  ALL_SHARDS,
  arrivalResult,
  dequeue,
  enqueue,
  FAILED,
  NONE,
  OK,
  REFUSED,
  responseMs,
  responseOutcome,
  type Server,
  SILENT,
  serviceTime,
} from "./server.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  OFFERED,
  recordQueue,
  type WorldRun,
} from "./tally.ts";

export function runCalls(
  scenario: CallsScenario,
  seed: number | string,
  options: RunOptions = {},
): WorldRun {
  const world = createWorld(scenario, seed, options);
  addCallers(world, drawsOf(seed, "guards"), options);
  const { clients } = scenario;
  if (clients.kind === "CLOSED") startClosed(world, clients);
  else scheduleArrival(world);
  runEvents(world, options.onProgress);
  const { timeline } = serverOf(world, world.servers.length - 1);
  return {
    engine: "calls",
    tally: world.tally,
    fairness: fairnessOf(world),
    triggerStartMs: timeline.startMs,
    triggerEndMs: timeline.endMs,
  };
}

/** Runs until no event is left or the horizon is reached. */
export function runEvents(world: World, onProgress?: OnProgress): void {
  const { heap, trace, scenario } = world;
  const { jobs } = scenario.clients as ClosedClients;
  for (let events = 0; popEvent(heap); events++) {
    const { at, kind, subject } = heap;
    // Clients with a fixed number of jobs run until the last job is done.
    if (at > scenario.horizonMs && jobs === undefined) return;
    assertAtMost(events, MAX_EVENTS, "events");
    world.now = at;
    if (onProgress !== undefined && isProgressDue(events)) onProgress(progressOf(world));
    trace?.add(at, kind, subject);
    (HANDLERS[kind] as Handler)(world, subject);
  }
}

/** The share of the run that is done: by jobs if their number is fixed, else by time. */
function progressOf({ scenario, tally, now }: World): number {
  const { clients, horizonMs } = scenario;
  const { jobs } = clients as ClosedClients;
  if (jobs === undefined) return Math.min(1, now / horizonMs);
  return (tally.succeeded + tally.lost) / (jobs * (clients.count ?? 1));
}

type Handler = (world: World, subject: number) => void;

/** By kind of event, in the order of `calls-world.ts`. */
const HANDLERS: readonly Handler[] = [
  onArrival,
  tryAttempt,
  onReach,
  onServed,
  onResponse,
  onTimeout,
  onHedge,
  onStart,
  onFinish,
  startService,
  onExpire,
  onAlarmDue,
];

/** Poisson traffic by thinning: candidates arrive at the highest rate of the scenario. */
function scheduleArrival(world: World): void {
  const { ratePerSecond, untilMs } = world.scenario.clients as OpenClients;
  const { peakLoad } = serverOf(world, 0).timeline;
  const at = world.now + (1000 * exponential(world.arrivals)) / (ratePerSecond * peakLoad);
  if (at < (untilMs ?? world.scenario.horizonMs)) pushEvent(world.heap, at, ARRIVAL, 0);
}

function onArrival(world: World): void {
  scheduleArrival(world);
  const { peakLoad, loadAt } = serverOf(world, 0).timeline;
  const load = loadAt(world.now);
  if ((peakLoad > 1 || load < 1) && world.arrivals.next() * peakLoad >= load) return;
  const { count = 1 } = world.scenario.clients;
  onStart(world, count > 1 ? Math.floor(world.arrivals.next() * count) : 0);
}

function onStart(world: World, client: number): void {
  startCall(world, 0, client, NONE);
}

/** Closed clients: each starts its next call after its last one ends. */
function startClosed(world: World, clients: ClosedClients): void {
  const { count, startSpreadMs = 0 } = clients;
  const think: DurationSampler = durationSampler(clients.think ?? 0);
  const jobs = clients.jobs ?? Number.POSITIVE_INFINITY;
  for (let client = 0; client < count; client++) {
    const firstMs = clients.think === undefined ? 0 : think(world.arrivals);
    pushEvent(world.heap, (startSpreadMs * client) / count + firstMs, START, client);
  }
  world.onDone = (client, tookMs) => {
    if ((world.callsOf[client] as number) >= jobs) return;
    // Consecutive calls that take no time would stop the clock.
    const restMs = think(world.arrivals) || (tookMs > 0 ? 0 : 1);
    pushEvent(world.heap, world.now + restMs, START, client);
  };
}

/** Jain's fairness index of the success rates of all clients that made calls. */
function fairnessOf({ callsOf, successesOf }: World): number {
  let sum = 0;
  let squares = 0;
  let count = 0;
  for (let client = 0; client < callsOf.length; client++) {
    const calls = callsOf[client] as number;
    if (calls === 0) continue;
    const share = (successesOf[client] as number) / calls;
    sum += share;
    squares += share * share;
    count++;
  }
  return squares === 0 ? 1 : (sum * sum) / (count * squares);
}

// Attempts: starts calls and their attempts. Core's `Admission` decides whether an attempt may
// start; this file only carries it out.

/**
 * Each tier is one caller. The clients of the first tier share one set of guards, or each client is
 * a caller.
 */
export function addCallers(world: World, random: Random, { guardOf }: RunOptions = {}): void {
  const { scenario, callers, isPlain, request } = world;
  const { tiers, guards, clients } = scenario;
  const engine = engineOf(world);
  for (const [number, tier] of tiers.entries()) {
    if (isPlain[number]) continue;
    const custom = number === 0 ? guardOf : undefined;
    const isApart = number === 0 && (custom || !isPlainTier(tier)) && guards === "PER_CLIENT";
    const first = isApart ? tiers.length : number;
    const count = isApart ? (clients.count ?? 1) : 1;
    for (let caller = first; caller < first + count; caller++) {
      const guard = custom?.(caller - first);
      callers[caller] = createCaller(caller, tier, request, engine, random, guard);
    }
  }
}

/** The engine's side of the callers' interface. */
function engineOf(world: World): Engine {
  const { heap } = world;
  return {
    now: () => world.now,
    historyOf: (call) => historyOf(world, call),
    send: (call, permit) => send(world, call, permit, 0),
    end: (call, reason, by) => endCall(world, call, reason, by),
    setExpiry: (call, at) => pushEvent(heap, at, EXPIRE, call),
    setAlarm(caller, at) {
      pushEvent(heap, at, ALARM, caller);
      return heap.order;
    },
  };
}

/** Starts a call to a tier. `parent` is the request that it serves, or NONE. */
function startCall(world: World, tier: number, client: number, parent: number): void {
  const { calls, callers, servers, tally } = world;
  const call = takeRow(calls);
  const { shards } = serverOf(world, tier);
  calls.tier[call] = tier;
  calls.caller[call] = tier === 0 && !callers[0] ? servers.length + client : tier;
  calls.client[call] = client;
  calls.parent[call] = parent;
  calls.shard[call] = shards > 1 ? Math.floor(world.arrivals.next() * shards) : 0;
  calls.attempt[call] = 0;
  calls.startedAt[call] = world.now;
  calls.previousMs[call] = 0;
  calls.throttled[call] = 0;
  calls.live[call] = NONE;
  if (parent === NONE) {
    tally.calls++;
    world.callsOf[client] = (world.callsOf[client] as number) + 1;
    countAt(tally, OFFERED, world.now);
  }
  if (!world.isPlain[tier]) callerOf(world, call).custom?.onFirst?.();
  tryAttempt(world, call);
}

/** The next attempt is due. It is sent if the guards admit it. */
function tryAttempt(world: World, call: number): void {
  const { calls } = world;
  if (world.isPlain[calls.tier[call] as number]) {
    send(world, call, undefined, 0);
    return;
  }
  const caller = callerOf(world, call);
  const shard = calls.shard[call] as number;
  world.script?.onDue(call);
  const { custom } = caller;
  if (custom?.enter && !custom.enter(Math.floor(world.now), shard)) endCall(world, call, "custom");
  else requestSend(caller, call, admissionFor(world, call), shard);
}

function onExpire(world: World, call: number): void {
  expireCall(callerOf(world, call), call);
}

function onAlarmDue({ callers, heap }: World, caller: number): void {
  onAlarm(callers[caller] as Caller, heap.order);
}

// Sending: sends attempts and hedges.

/** Sends an attempt, or a hedge of it if `copy` is not 0. */
function send(world: World, call: number, permit: Permit | undefined, copy: number): void {
  const { calls, requests, heap, tally } = world;
  const tier = calls.tier[call] as number;
  const { destination } = tierOf(world, tier);
  const request = takeRow(requests);
  requests.call[request] = call;
  requests.generation[request] = calls.generation[call] as number;
  requests.race[request] = calls.generation[call] as number;
  requests.tier[request] = tier;
  requests.shard[request] = calls.shard[call] as number;
  requests.sentAt[request] = world.now;
  requests.copy[request] = copy;
  requests.sibling[request] = calls.live[call] as number;
  requests.references[request] = 1;
  calls.live[call] = request;
  if (permit) world.permits[request] = permit;
  if (copy === 0) calls.attempt[call] = (calls.attempt[call] as number) + 1;
  if (world.script) world.script.onSend(request);
  else pushEvent(heap, world.now + serverOf(world, tier).hop(world.wire), REACH, request);
  if (tier === world.servers.length - 1) tally.attempts++;
  // Each copy has its own timeout, as in the library. Its row is not free before that.
  const { attemptTimeoutMs, totalBudgetMs } = destination.policy;
  const leftMs = (calls.startedAt[call] as number) + totalBudgetMs - world.now;
  retain(requests, request);
  pushEvent(heap, world.now + Math.min(attemptTimeoutMs, leftMs), TIMEOUT, request);
  if (destination.hedge) scheduleHedge(world, call, request, destination.hedge);
}

/** Schedules the next copy, if one is allowed. */
function scheduleHedge(world: World, call: number, request: number, hedge: HedgeOptions): void {
  const { calls, requests } = world;
  const copy = requests.copy[request] as number;
  if (copy === 0) {
    const { latency } = callerOf(world, call).guards;
    const now = Math.floor(world.now);
    calls.hedgeMs[call] = hedgeAfterMs(hedge, latency, now) ?? Number.POSITIVE_INFINITY;
    calls.quietUntil[call] = 0;
  }
  const afterMs = calls.hedgeMs[call] as number;
  if (copy >= hedge.max || afterMs === Number.POSITIVE_INFINITY) return;
  retain(requests, request);
  pushEvent(world.heap, world.now + afterMs, HEDGE, request);
}

/**
 * Sends a hedge if its attempt is still in progress, no response asked to wait, and the guards
 * admit it.
 */
function onHedge(world: World, request: number): void {
  const { requests, calls } = world;
  const call = requests.call[request] as number;
  const copy = (requests.copy[request] as number) + 1;
  // The copy may have failed meanwhile. What matters is that its attempt is in progress.
  const isOver = (requests.race[request] as number) !== (calls.generation[call] as number);
  release(requests, request);
  if (isOver || world.now < (calls.quietUntil[call] as number)) return;
  const permit = requestHedge(callerOf(world, call), calls.shard[call] as number);
  if (permit) send(world, call, permit, copy);
}

// Serving: a request arrives at a server, waits in the queue and is served. At any tier but the
// last it then becomes a call to the next tier.

function onReach(world: World, request: number): void {
  const { requests, now } = world;
  const tier = requests.tier[request] as number;
  const server = serverOf(world, tier);
  if (tier === world.servers.length - 1) countArrivals(world.tally, now, 1);
  const verdict = arrivalResult(server, now, requests.shard[request] as number, world.draws);
  if (verdict === ACCEPTED) {
    accept(world, server, tier, request);
    return;
  }
  if (verdict !== SILENT) respond(world, request, verdict);
  release(requests, request);
}

/** The queue or the FINISH event takes over the reference of the REACH event. */
function accept(world: World, server: Server, tier: number, request: number): void {
  if (server.serviceMs === 0) {
    finishLater(world, server, request);
    return;
  }
  enqueue(server, request);
  recordQueue(world.tally, world.now, server.waiting * server.serviceMs);
  if (server.serving === NONE) startService(world, tier);
}

function finishLater(world: World, server: Server, request: number): void {
  server.inProgress++;
  const shard = world.requests.shard[request] as number;
  const tookMs = responseMs(server, world.now, shard, world.draws);
  pushEvent(world.heap, world.now + tookMs, FINISH, request);
}

function startService(world: World, tier: number): void {
  const server = serverOf(world, tier);
  if (server.serving !== NONE || server.waiting === 0) return;
  const serviceMs = serviceTime(server, world.now, world.draws);
  if (serviceMs === Number.POSITIVE_INFINITY) {
    waitForTimeline(world, server, tier);
    return;
  }
  const request = nextRequest(world, server);
  if (request === NONE) return;
  server.serving = request;
  pushEvent(world.heap, world.now + serviceMs, SERVED, tier);
}

/** The next request. Skips requests that no client waits for, if the server drops expired work. */
function nextRequest(world: World, server: Server): number {
  for (;;) {
    const request = dequeue(server);
    if (request === NONE || !server.dropsExpired || isAwaited(world, request)) return request;
    release(world.requests, request);
  }
}

/** The server is stopped: checks again when the timeline changes. A failover loses the queue. */
function waitForTimeline(world: World, server: Server, tier: number): void {
  const { lostQueue, hangs } = server.timeline.conditionAt(world.now, ALL_SHARDS);
  if (lostQueue) {
    for (let request = dequeue(server); request !== NONE; request = dequeue(server)) {
      if (!hangs) respond(world, request, REFUSED);
      release(world.requests, request);
    }
  }
  const at = server.timeline.edgeAfter(world.now);
  if (server.wakeAt === at || at === Number.POSITIVE_INFINITY) return;
  server.wakeAt = at;
  pushEvent(world.heap, at, WAKE, tier);
}

function onServed(world: World, tier: number): void {
  const server = serverOf(world, tier);
  const request = server.serving;
  server.serving = NONE;
  if (request !== NONE) finishLater(world, server, request);
  startService(world, tier);
}

/** The server has finished its own work on a request: it responds, or calls the next tier. */
function onFinish(world: World, request: number): void {
  const { requests, calls } = world;
  const tier = requests.tier[request] as number;
  serverOf(world, tier).inProgress--;
  if (tier === world.servers.length - 1) {
    respond(world, request, OK);
    release(requests, request);
    return;
  }
  const client = calls.client[requests.call[request] as number] as number;
  startCall(world, tier + 1, client, request);
}

// Outcomes: ends attempts on a response or a timeout. Core's `decide` chooses what follows; this
// file only carries it out.

const ABORTED: Outcome = { kind: "aborted" };

function onTimeout(world: World, request: number): void {
  const { tier, sentAt } = world.requests;
  const { policy } = tierOf(world, tier[request] as number).destination;
  onEnd(world, request, timeoutOutcome(policy, world.now - (sentAt[request] as number)));
}

function onResponse(world: World, request: number): void {
  const { requests, script } = world;
  const { retryAfterMs } = serverOf(world, requests.tier[request] as number);
  const response = requests.response[request] as number;
  onEnd(world, request, script?.outcomeOf(request) ?? responseOutcome(response, retryAfterMs));
}

function onEnd(world: World, request: number, outcome: Outcome): void {
  const { requests } = world;
  const awaited = isAwaited(world, request);
  const call = requests.call[request] as number;
  release(requests, request);
  if (awaited) endCopy(world, call, request, outcome);
}

/**
 * One copy ended. A success ends its attempt. A failure ends it if no other copy is in progress.
 */
function endCopy(world: World, call: number, request: number, outcome: Outcome): void {
  const { calls } = world;
  const { policy } = tierOf(world, calls.tier[call] as number).destination;
  const verdict = classifyOutcome(policy, outcome);
  unlink(world, call, request);
  const isLast = verdict === "success" || (calls.live[call] as number) === NONE;
  if (isLast) calls.generation[call] = (calls.generation[call] as number) + 1;
  leave(world, call, request, outcome, verdict);
  if (verdict === "success") {
    abortCopies(world, call);
    endCall(world, call, undefined);
    return;
  }
  const combined = withQuietPeriod(world, call, outcome);
  if (isLast) fail(world, call, combined, verdict);
}

/**
 * Removes the request from its call before the guards admit the next call, which may reuse the row.
 */
function unlink({ calls, requests }: World, call: number, request: number): void {
  const next = requests.sibling[request] as number;
  requests.generation[request] = NONE;
  let before = calls.live[call] as number;
  if (before === request) {
    calls.live[call] = next;
    return;
  }
  while ((requests.sibling[before] as number) !== request) {
    before = requests.sibling[before] as number;
  }
  requests.sibling[before] = next;
}

/**
 * Losing copies carry no information about the server. Their rows become free when they time out.
 */
function abortCopies(world: World, call: number): void {
  const { calls, requests } = world;
  let copy = calls.live[call] as number;
  for (; copy !== NONE; copy = requests.sibling[copy] as number) {
    leave(world, call, copy, ABORTED, "aborted");
  }
}

function leave(
  world: World,
  call: number,
  request: number,
  outcome: Outcome,
  verdict: Verdict,
): void {
  const { calls, requests, permits } = world;
  if (world.isPlain[calls.tier[call] as number]) return;
  const durationMs = world.now - (requests.sentAt[request] as number);
  const permit = permits[request] as Permit;
  permits[request] = undefined;
  const shard = calls.shard[call] as number;
  leaveGuards(callerOf(world, call), permit, shard, outcome, verdict, durationMs);
}

/** Applies the Retry-After of one copy to the whole attempt: to its other copies and its retry. */
function withQuietPeriod(world: World, call: number, outcome: Outcome): Outcome {
  const { calls, now } = world;
  if (!tierOf(world, calls.tier[call] as number).destination.hedge) return outcome;
  const askedUntil = now + (outcome.retryAfterMs ?? 0);
  const quietUntil = Math.max(calls.quietUntil[call] as number, askedUntil);
  calls.quietUntil[call] = quietUntil;
  return quietUntil > now ? { ...outcome, retryAfterMs: quietUntil - now } : outcome;
}

/** An attempt failed: core decides what follows. */
function fail(world: World, call: number, outcome: Outcome, verdict: Verdict): void {
  const { calls, script } = world;
  const tier = calls.tier[call] as number;
  const { policy } = tierOf(world, tier).destination;
  calls.throttled[call] = verdict === "throttled" ? 1 : 0;
  const caller = world.isPlain[tier] ? undefined : callerOf(world, call);
  const shard = calls.shard[call] as number;
  const random = script?.randomOf(call) ?? world.jitter;
  const history = historyOf(world, call);
  // As in the library, a call without attempts left asks no guard.
  const asks = caller && history.attempt < policy.maxAttempts;
  const gates = asks ? gatesOf(caller, admissionFor(world, call), shard) : OPEN_GATES;
  const { now } = world;
  const decision = decide(policy, world.request, history, outcome, gates, now, random);
  if (decision.kind === "stop") {
    endCall(world, call, decision.reason);
    return;
  }
  calls.previousMs[call] = decision.ownDelayMs;
  if (decision.kind === "retry" && caller?.custom?.takeRetry && !caller.custom.takeRetry()) {
    endCall(world, call, "retry-budget");
    return;
  }
  const waitMs = decision.kind === "hold" ? decision.until - now : decision.delayMs;
  if ((calls.parent[call] as number) === NONE) world.tally.waitedMs += waitMs;
  pushEvent(world.heap, now + waitMs, SEND, call);
}

// Calls: what core needs to know about a call, and how a call ends.

function historyOf({ calls }: World, call: number): CallHistory {
  return {
    attempt: calls.attempt[call] as number,
    startedAt: calls.startedAt[call] as number,
    previousDelayMs: calls.previousMs[call] as number,
  };
}

/** The admission request of the next attempt. */
function admissionFor({ calls, admissions }: World, call: number): AdmissionRequest {
  const isRetry = (calls.attempt[call] as number) > 0;
  return admissions[isRetry ? 1 + (calls.throttled[call] as number) : 0] as AdmissionRequest;
}

/** Ends a call; `reason` is undefined for success. */
function endCall(world: World, call: number, reason: string | undefined, by?: HoldReason): void {
  const { calls, tally, now } = world;
  const parent = calls.parent[call] as number;
  const client = calls.client[call] as number;
  calls.generation[call] = (calls.generation[call] as number) + 1;
  calls.free.push(call);
  if (parent !== NONE) {
    respond(world, parent, reason === undefined ? OK : FAILED);
    release(world.requests, parent);
    return;
  }
  const tookMs = now - (calls.startedAt[call] as number);
  if (reason === undefined) {
    countSucceeded(tally, now, tookMs);
    world.successesOf[client] = (world.successesOf[client] as number) + 1;
  } else countLost(tally, reason, now);
  world.script?.onEnd(call, reason ?? "succeeded", by);
  world.onDone(client, tookMs);
}
