/**
 * Simulate calls: runs calls to one destination with guards. The calls start at given instants, and
 * a script defines how their attempts end. The general engine runs them. The agreement test runs
 * the same script through the other faces and requires the same attempts, holds and ends.
 */
import {
  type CallRequest,
  type DestinationDocument,
  decide,
  type EndStatus,
  type HoldReason,
  OPEN_GATES,
  type Outcome,
  type Patience,
  type PolicyDocument,
  type PresetName,
  type Random,
  resolveDestination,
  type StopReason,
} from "@redrive/core";
import { createHeap, popEvent, pushEvent } from "../engine/heap.ts";
import { assertAtMost } from "../engine/run.ts";
import { type CallsScenario, DEFAULT_HORIZON_MS, DEFAULT_WINDOW_MS } from "../scenario/scenario.ts";
import { policyOf } from "../schedule/waits.ts";
import { holdReasonOf } from "./caller.ts";
import { addCallers, runEvents } from "./calls.ts";
import { callerOf, createWorld, RESPONSE, type Script, START, type World } from "./calls-world.ts";

export interface CallsOptions {
  /** Guards that are missing in the document are off. */
  readonly destination: DestinationDocument;
  readonly patience: Patience;
  /** Epoch ms, because guards use clock time. */
  readonly startAt: number;
  /** When each call starts, in whole ms from the start, in ascending order. At most 1 000 000. */
  readonly arrivals: readonly number[];
  /**
   * How an attempt ends, unless its timeout comes first. Calls and copies count from 0, attempts
   * from 1.
   */
  outcomeOf(call: number, attempt: number, copy: number): ScriptedOutcome;
  /** The random stream of one call. */
  randomOf(call: number): Random;
  /** The random stream of the destination's guards. */
  readonly guardRandom: Random;
}

/** Instants are in ms from the start. */
export interface SimulatedAttempt {
  /** Index in `arrivals`. */
  readonly call: number;
  /** From 1; copies share it. */
  readonly attempt: number;
  /** 0 for the original, 1 and up for hedges. */
  readonly copy: number;
  readonly dueAt: number;
  /** When it was sent. */
  readonly at: number;
  /** The guard that held it; absent if it was sent when it was due. */
  readonly heldBy?: HoldReason;
}

export interface SimulatedEnd {
  readonly call: number;
  readonly at: number;
  readonly status: EndStatus;
  readonly reason: StopReason;
  /** For `held`: the guard that held it. */
  readonly by?: HoldReason;
}

/** Both lists are in order of time. */
export interface SimulatedCalls {
  readonly attempts: readonly SimulatedAttempt[];
  readonly ends: readonly SimulatedEnd[];
}

const MAX_CALLS = 1_000_000;

/**
 * Events of one instant run in this order: attempts end; due retries are sent, and waiting calls are
 * sent or end; new calls start; hedges are sent.
 */
export function simulateCalls(options: CallsOptions): SimulatedCalls {
  const { arrivals, startAt, guardRandom } = options;
  assertAtMost(arrivals.length, MAX_CALLS, "calls");
  const attempts: SimulatedAttempt[] = [];
  const ends: SimulatedEnd[] = [];
  const streams = new Map<number, Random>();
  const randomOf = (call: number) => {
    const stream = streams.get(call) ?? options.randomOf(call);
    streams.set(call, stream);
    return stream;
  };
  const startsAt = arrivals.map((at) => startAt + at);
  runScript(scenarioOf(options), startsAt, {
    startAt,
    guardRandom,
    randomOf,
    outcomeOf: (call, attempt, copy) => options.outcomeOf(call, attempt, copy),
    onSend({ client: call, attempt, copy, heldBy, ...sent }) {
      const [dueAt, at] = [sent.dueAt - startAt, sent.at - startAt];
      attempts.push({ call, attempt, copy, dueAt, at, ...(heldBy && { heldBy }) });
    },
    onEnd(call, endedAt, stopReason, by) {
      const reason = stopReason as StopReason;
      const at = endedAt - startAt;
      ends.push({ call, at, status: statusOf(reason), reason, ...(by && { by }) });
    },
  });
  return { attempts, ends };
}

function statusOf(reason: StopReason): EndStatus {
  if (reason === "succeeded") return "SUCCEEDED";
  return reason === "aborted" ? "CANCELLED" : "EXHAUSTED";
}

/** The script replaces the server. */
function scenarioOf({ destination, patience, arrivals }: CallsOptions): CallsScenario {
  return {
    world: "CALLS",
    name: "script",
    horizonMs: DEFAULT_HORIZON_MS,
    windowMs: DEFAULT_WINDOW_MS,
    clients: { kind: "CLOSED", count: arrivals.length, jobs: 1 },
    guards: "SHARED",
    patience,
    tiers: [
      {
        name: "script",
        destination: resolveDestination(destination, "simulator"),
        breakerPerShard: false,
        server: {},
      },
    ],
    timeline: [],
  };
}

// Script: runs calls with given start times and outcomes in the general engine. The script replaces
// the wire and the servers; the client side is unchanged.

/** A call has the number of its client. Instants are epoch ms, because guards use clock time. */
interface ScriptOptions {
  readonly startAt: number;
  readonly guardRandom: Random;
  randomOf(client: number): Random;
  outcomeOf(
    client: number,
    attempt: number,
    copy: number,
  ): { readonly outcome: Outcome; readonly durationMs: number };
  onSend(sent: ScriptedSend): void;
  onEnd(client: number, at: number, reason: string, by: HoldReason | undefined): void;
}

interface ScriptedSend {
  readonly client: number;
  readonly attempt: number;
  readonly copy: number;
  readonly dueAt: number;
  readonly at: number;
  /** The guard that held it last; undefined if it was sent when it was due. */
  readonly heldBy: HoldReason | undefined;
}

/** Each client makes one call at its instant. The tally counts in epoch ms and is not used. */
function runScript(
  scenario: CallsScenario,
  startsAt: readonly number[],
  options: ScriptOptions,
): void {
  const script = scriptOf(options, () => world);
  const world = createWorld(scenario, 0, { script });
  world.now = options.startAt;
  addCallers(world, options.guardRandom);
  for (const [client, at] of startsAt.entries()) pushEvent(world.heap, at, START, client);
  runEvents(world);
}

function scriptOf(options: ScriptOptions, worldOf: () => World): Script {
  const dueAt: number[] = [];
  const outcomes: Outcome[] = [];
  const clientOf = (call: number) => worldOf().calls.client[call] as number;
  return {
    randomOf: (call) => options.randomOf(clientOf(call)),
    onDue(call) {
      dueAt[call] = worldOf().now;
    },
    onSend(request) {
      const { calls, requests, heap, now: at } = worldOf();
      const call = requests.call[request] as number;
      const copy = requests.copy[request] as number;
      const attempt = calls.attempt[call] as number;
      const client = clientOf(call);
      const wasDueAt = copy > 0 ? at : (dueAt[call] as number);
      const heldBy = wasDueAt < at ? holdReasonOf(callerOf(worldOf(), call), call) : undefined;
      options.onSend({ client, attempt, copy, dueAt: wasDueAt, at, heldBy });
      const { outcome, durationMs } = options.outcomeOf(client, attempt, copy);
      outcomes[request] = outcome;
      pushEvent(heap, at + durationMs, RESPONSE, request);
    },
    outcomeOf: (request) => outcomes[request] as Outcome,
    onEnd: (call, reason, by) => options.onEnd(clientOf(call), worldOf().now, reason, by),
  };
}

// Simulate call: runs one call against a script of outcomes. Each decision becomes an event on the
// event queue. The agreement test runs the same script through the library and requires the same
// attempts at the same instants.

/**
 * The outcome and the duration of one attempt. The last entry also applies to all later attempts.
 */
export interface ScriptedOutcome {
  readonly outcome: Outcome;
  readonly durationMs: number;
}

export interface CallOptions {
  /** The random stream of this call. */
  readonly random: Random;
  readonly request?: CallRequest;
  /** Epoch ms. Default: 0. */
  readonly startAt?: number;
}

export interface SimulatedCall {
  /** When each attempt started. */
  readonly startsAt: readonly number[];
  readonly endedAt: number;
  readonly status: EndStatus;
  readonly reason: StopReason;
}

/** Events: an attempt starts, an attempt ends. */
const ATTEMPT = 0;
const RESULT = 1;

export function simulateCall(
  policy: PolicyDocument | PresetName,
  script: readonly ScriptedOutcome[],
  options: CallOptions,
): SimulatedCall {
  const { random, request = {}, startAt = 0 } = options;
  const resolved = policyOf(policy);
  const heap = createHeap();
  const startsAt: number[] = [];
  let previousDelayMs = 0;
  pushEvent(heap, startAt, ATTEMPT, 0);
  while (popEvent(heap)) {
    const { at } = heap;
    const attempt = startsAt.length + (heap.kind === ATTEMPT ? 1 : 0);
    const step = script[Math.min(attempt, script.length) - 1] as ScriptedOutcome;
    if (heap.kind === ATTEMPT) {
      startsAt.push(at);
      pushEvent(heap, at + step.durationMs, RESULT, 0);
      continue;
    }
    const history = { attempt, startedAt: startAt, previousDelayMs };
    const decision = decide(resolved, request, history, step.outcome, OPEN_GATES, at, random);
    if (decision.kind === "stop") {
      return { startsAt, endedAt: at, status: decision.status, reason: decision.reason };
    }
    previousDelayMs = decision.ownDelayMs;
    pushEvent(heap, decision.kind === "hold" ? decision.until : at + decision.delayMs, ATTEMPT, 0);
  }
  return { startsAt, endedAt: startAt, status: "EXHAUSTED", reason: "attempts" };
}
