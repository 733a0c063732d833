/**
 * Guarded fleet: a fleet with guards, shared by all clients or one set per client. An attempt has two
 * events, its start and its end. It uses the guards through `caller.ts`, as the general engine does,
 * and a property test compares the two engines.
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
  type Verdict,
} from "@redrive/core";
import {
  createEventQueue,
  type EventQueue,
  popNext,
  pushMember,
} from "../../events/event-queue.ts";
import { pushEvent } from "../../events/heap.ts";
import { assertAtMost, MAX_EVENTS } from "../../events/limits.ts";
import type { Trace } from "../../events/trace.ts";
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
import { type Draws, drawsOf } from "../../random/draws.ts";
import type { CallsScenario, Tier } from "../../scenario/scenario.ts";
import type { ClosedClients } from "../../scenario/scenario-document.ts";
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
} from "../client-server/caller.ts";
import { responseOutcome, TIMED_OUT } from "../client-server/response-outcome.ts";
import { FAILED, OK, REFUSED, SILENT, THROTTLED } from "../client-server/server.ts";
import type { Timeline } from "../client-server/timeline.ts";
import { type CountingServer, createCountingServer, serveCounted } from "./fleet-server.ts";
import { type FleetSetup, fleetRun } from "./fleet-setup.ts";

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

export function runGuardedFleet(
  scenario: CallsScenario,
  seed: number | string,
  trace: Trace | undefined,
): WorldRun {
  return fleetRun(scenario, (setup) => {
    const fleet = createFleet(setup, scenario.patience, seed);
    addCallers(fleet, scenario, seed);
    start(fleet, setup.clients);
    runEvents(fleet, trace);
  });
}

function runEvents(fleet: GuardedFleet, trace: Trace | undefined): void {
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
  (fleet, client) => end(fleet, client, TIMED_OUT),
  (fleet, client) => expireCall(callerOf(fleet, client), client),
  ({ callers, queue }, index) => onAlarm(callers[index] as Caller, queue.heap.order),
];

function createFleet(
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
function start({ queue }: GuardedFleet, { count, startSpreadMs = 0 }: ClosedClients): void {
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
