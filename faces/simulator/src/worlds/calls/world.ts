/**
 * World: the state of a simulation of calls, and the steps that several files share. `attempts.ts`
 * handles calls, `serving.ts` handles servers, and `calls.ts` runs the event loop.
 */
import type {
  AdmissionRequest,
  CallRequest,
  HoldReason,
  Outcome,
  Permit,
  Random,
} from "@redrive/core";
import { createHeap, type Heap, pushEvent } from "../../events/heap.ts";
import type { RunObserver } from "../../events/progress.ts";
import type { Trace } from "../../events/trace.ts";
import { createTally, type Tally } from "../../measure/tally.ts";
import { type Draws, drawsOf } from "../../random/draws.ts";
import { type CallsScenario, isPlainTier, type Tier } from "../../scenario/scenario.ts";
import { admissionsOf, type Caller, type CustomGuard } from "../client-server/caller.ts";
import {
  type CallPool,
  createCalls,
  createRequests,
  type RequestPool,
  retain,
} from "../client-server/pools.ts";
import { createServer, type Server } from "../client-server/server.ts";
import { timelineOf } from "../client-server/timeline.ts";

/**
 * Events. The subject is a call (SEND, EXPIRE), a request, a tier (SERVED, WAKE), a client (START)
 * or a caller (ALARM).
 */
export const ARRIVAL = 0;
export const SEND = 1;
export const REACH = 2;
export const SERVED = 3;
export const RESPONSE = 4;
export const TIMEOUT = 5;
export const HEDGE = 6;
export const START = 7;
export const FINISH = 8;
export const WAKE = 9;
/** A call that waits for its guards has no time left. */
export const EXPIRE = 10;
/** The guards of a caller may admit waiting calls. */
export const ALARM = 11;

/**
 * By kind. At one instant servers work first; then attempts end; then due attempts are sent, and
 * waiting calls wake or expire; new calls come last.
 */
const RANKS = Uint8Array.of(3, 2, 0, 0, 1, 1, 2, 3, 0, 0, 2, 2);

/** Replaces the server and observes the calls when they follow a script: see `script.ts`. */
export interface Script {
  randomOf(call: number): Random;
  /** An attempt of the call is due now. */
  onDue(call: number): void;
  /** Replaces the wire and the server: a RESPONSE event must follow. */
  onSend(request: number): void;
  outcomeOf(request: number): Outcome;
  onEnd(call: number, reason: string, by: HoldReason | undefined): void;
}

/** Options for labs and scripts. A scenario never needs them. */
export interface RunOptions extends RunObserver {
  /** A custom guard for each client. */
  readonly guardOf?: ((client: number) => CustomGuard) | undefined;
  readonly script?: Script;
}

export interface World {
  readonly scenario: CallsScenario;
  readonly request: CallRequest;
  readonly admissions: readonly AdmissionRequest[];
  readonly servers: readonly Server[];
  /**
   * First by tier, if it has guards. Then by client, if each client has its own guards and the
   * first tier has none.
   */
  readonly callers: (Caller | undefined)[];
  /** True for tiers without guards: their attempts need no admission. */
  readonly isPlain: readonly boolean[];
  readonly heap: Heap;
  readonly tally: Tally;
  readonly trace: Trace | undefined;
  readonly script: Script | undefined;
  readonly calls: CallPool;
  readonly requests: RequestPool;
  /** By request: its permit. */
  readonly permits: (Permit | undefined)[];
  /** Random streams, one per purpose. `draws` is for the servers. */
  readonly arrivals: Draws;
  readonly wire: Draws;
  readonly draws: Draws;
  readonly jitter: Draws;
  /** By client: calls made and calls that succeeded. */
  readonly callsOf: Float64Array;
  readonly successesOf: Float64Array;
  /** Ms since the start of the scenario; with a script, epoch ms. */
  now: number;
  /** Called when a client's call ends, with its duration. */
  onDone: (client: number, tookMs: number) => void;
}

export function createWorld(
  scenario: CallsScenario,
  seed: number | string,
  { trace, guardOf, script }: RunOptions,
): World {
  const { tiers, clients, timeline, horizonMs, windowMs } = scenario;
  const last = tiers.length - 1;
  const count = clients.count ?? 1;
  const servers = tiers.map((tier, index) =>
    createServer(tier.server, timelineOf(timeline, index, last)),
  );
  const triggerEndMs = (servers[last] as Server).timeline.endMs;
  const isPlain = (tier: Tier, index: number) =>
    isPlainTier(tier) && !tier.destination.hedge && !script && (index > 0 || !guardOf);
  return {
    scenario,
    request: { patience: scenario.patience },
    admissions: admissionsOf(scenario),
    servers,
    callers: [],
    isPlain: tiers.map(isPlain),
    heap: createHeap(1024, RANKS),
    tally: createTally({ horizonMs, windowMs, triggerEndMs }),
    trace,
    script,
    calls: createCalls(),
    requests: createRequests(),
    permits: [],
    arrivals: drawsOf(seed, "arrivals"),
    wire: drawsOf(seed, "wire"),
    draws: drawsOf(seed, "server"),
    jitter: drawsOf(seed, "jitter"),
    callsOf: new Float64Array(count),
    successesOf: new Float64Array(count),
    now: 0,
    onDone: () => undefined,
  };
}

export function tierOf(world: World, index: number): Tier {
  return world.scenario.tiers[index] as Tier;
}

export function serverOf(world: World, index: number): Server {
  return world.servers[index] as Server;
}

/** The caller of a call to a tier with guards. */
export function callerOf({ callers, calls }: World, call: number): Caller {
  return callers[calls.caller[call] as number] as Caller;
}

/** True if the attempt that sent the request still waits for a response. */
export function isAwaited({ calls, requests }: World, request: number): boolean {
  const call = requests.call[request] as number;
  return (requests.generation[request] as number) === (calls.generation[call] as number);
}

/** Sends the response of a request. */
export function respond(world: World, request: number, outcome: number): void {
  const { requests, heap, wire } = world;
  requests.response[request] = outcome;
  retain(requests, request);
  const server = serverOf(world, requests.tier[request] as number);
  pushEvent(heap, world.now + server.hop(wire), RESPONSE, request);
}
