/**
 * World of calls: the state of a simulation of calls, and the steps that its handlers share.
 * `calls.ts` runs it.
 */
import type {
  AdmissionRequest,
  CallRequest,
  HoldReason,
  Outcome,
  Permit,
  Random,
} from "@redrive/core";
import { type Draws, drawsOf } from "../engine/draws.ts";
import { createHeap, type Heap, pushEvent } from "../engine/heap.ts";
import { doubleLength, type RunObserver, type Trace } from "../engine/run.ts";
import { type CallsScenario, isPlainTier, type Tier } from "../scenario/scenario.ts";
import { admissionsOf, type Caller, type CustomGuard } from "./caller.ts";
import { createServer, type Server, timelineOf } from "./server.ts";
import { createTally, type Tally } from "./tally.ts";

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
 * By kind. At one instant servers work first; then attempts end; then due retries are sent, and
 * waiting calls wake or expire; then new calls start. Hedges come last: no call depends on them.
 */
const RANKS = Uint8Array.of(3, 2, 0, 0, 1, 1, 4, 3, 0, 0, 2, 2);

/** Replaces the server and observes the calls when they follow a script: see `simulate-calls.ts`. */
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

// Pools: calls and requests as numbered rows of typed arrays. A *call* is what a client wants done.
// A *request* is one attempt or hedge of a call on the wire. It may outlive the call, because
// servers finish work that no client waits for any more.

interface CallPool {
  /** Rows created so far, in use or not. */
  size: number;
  free: number[];
  tier: Int32Array;
  /** The caller whose guards apply: a client, or the tier. */
  caller: Int32Array;
  /** The client that it serves, directly or through tiers. */
  client: Int32Array;
  /** The request that it serves, or NONE for a client's call. */
  parent: Int32Array;
  shard: Int32Array;
  attempt: Int32Array;
  startedAt: Float64Array;
  previousMs: Float64Array;
  /** 1 if the latest attempt was throttled: its retry may cost more. */
  throttled: Int32Array;
  /** The delay between two copies of this attempt. */
  hedgeMs: Float64Array;
  /** Until when a response to a copy of this attempt asked to wait (Retry-After). */
  quietUntil: Float64Array;
  /** Increases when an attempt ends. Requests of another generation are stale. */
  generation: Int32Array;
  /** The first of this attempt's requests in progress. */
  live: Int32Array;
}

interface RequestPool {
  size: number;
  free: number[];
  call: Int32Array;
  generation: Int32Array;
  /** The generation of the call when it was sent; does not change. */
  race: Int32Array;
  /** Copied from the call, because another call may reuse its row. */
  tier: Int32Array;
  shard: Int32Array;
  sentAt: Float64Array;
  /** 0 for the original, 1 and up for hedges. */
  copy: Int32Array;
  /** The next request of the same attempt (a hedge), or NONE. */
  sibling: Int32Array;
  /** The response: see `server.ts`. */
  response: Int32Array;
  /** Events and queues that still refer to it. At 0 the row is free. */
  references: Int32Array;
}

const FIRST_ROWS = 1024;
const ints = () => new Int32Array(FIRST_ROWS);
const floats = () => new Float64Array(FIRST_ROWS);

function createCalls(): CallPool {
  return {
    size: 0,
    free: [],
    tier: ints(),
    caller: ints(),
    client: ints(),
    parent: ints(),
    shard: ints(),
    attempt: ints(),
    startedAt: floats(),
    previousMs: floats(),
    throttled: ints(),
    hedgeMs: floats(),
    quietUntil: floats(),
    generation: ints(),
    live: ints(),
  };
}

function createRequests(): RequestPool {
  return {
    size: 0,
    free: [],
    call: ints(),
    generation: ints(),
    race: ints(),
    tier: ints(),
    shard: ints(),
    sentAt: floats(),
    copy: ints(),
    sibling: ints(),
    response: ints(),
    references: ints(),
  };
}

/** Takes a row. Its fields still have the values of the last user. */
export function takeRow(pool: CallPool | RequestPool): number {
  const recycled = pool.free.pop();
  if (recycled !== undefined) return recycled;
  if (pool.size === pool.generation.length) enlarge(pool);
  return pool.size++;
}

function enlarge(pool: CallPool | RequestPool): void {
  const rows = pool as unknown as Record<string, unknown>;
  for (const [name, column] of Object.entries(rows)) {
    if (column instanceof Int32Array || column instanceof Float64Array)
      rows[name] = doubleLength(column);
  }
}

/** Releases one reference to a request. The last release frees the row. */
export function release(requests: RequestPool, request: number): void {
  const left = (requests.references[request] as number) - 1;
  requests.references[request] = left;
  if (left === 0) requests.free.push(request);
}

export function retain(requests: RequestPool, request: number): void {
  requests.references[request] = (requests.references[request] as number) + 1;
}
