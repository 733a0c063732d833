/**
 * World: the state of a simulation of calls, and the few steps that all its parts share. Calls are
 * carried by `attempts.ts`, servers by `serving.ts`; `calls.ts` turns the wheel.
 */
import type { CallRequest } from "@redrive/core";
import { type Draws, drawsOf } from "../chance/draws.ts";
import { createHeap, type Heap, pushEvent } from "../engine/heap.ts";
import type { Watch } from "../engine/progress.ts";
import type { Trace } from "../engine/trace.ts";
import { createTally, type Tally } from "../measure/tally.ts";
import { type CallsScenario, isPlainTier, type Tier } from "../scenario.ts";
import { type Caller, createCaller, type OwnGuard } from "./caller.ts";
import { type CallPool, createCalls, createRequests, type RequestPool, retain } from "./pools.ts";
import { createServer, type Server } from "./server.ts";
import { timelineOf } from "./timeline.ts";

/** Events. The subject is a call (SEND), a request, a tier (SERVED, WAKE) or a client (START). */
export const ARRIVAL = 0;
export const SEND = 1;
export const REACH = 2;
export const SERVED = 3;
export const ANSWER = 4;
export const TIMEOUT = 5;
export const HEDGE = 6;
export const START = 7;
export const FINISH = 8;
export const WAKE = 9;

/** What a lab may change; a scenario never needs it. */
export interface RunOptions extends Watch {
  /** A guard of the lab's own for each client. */
  readonly ownGuard?: ((client: number) => OwnGuard) | undefined;
}

export interface World {
  readonly scenario: CallsScenario;
  readonly request: CallRequest;
  readonly servers: readonly Server[];
  /** By tier, then by caller. */
  readonly callers: readonly (readonly Caller[])[];
  /** True for tiers without any guard: their attempts need not ask. */
  readonly isPlain: readonly boolean[];
  readonly heap: Heap;
  readonly tally: Tally;
  readonly trace: Trace | undefined;
  readonly calls: CallPool;
  readonly requests: RequestPool;
  /** Streams of chance, one a purpose. */
  readonly arrivals: Draws;
  readonly wire: Draws;
  readonly chance: Draws;
  readonly jitter: Draws;
  readonly guardDraw: () => number;
  /** By client: calls made and calls that succeeded. */
  readonly callsOf: Float64Array;
  readonly successesOf: Float64Array;
  now: number;
  /** Told when a client's own call is over, and how long it took. */
  onDone: (client: number, tookMs: number) => void;
}

export function createWorld(
  scenario: CallsScenario,
  seed: number | string,
  options: RunOptions,
): World {
  const { tiers, clients, timeline, horizonMs, windowMs } = scenario;
  const last = tiers.length - 1;
  const count = clients.count ?? 1;
  const servers = tiers.map((tier, index) =>
    createServer(tier.server, timelineOf(timeline, index, last)),
  );
  const troubleEndMs = (servers[last] as Server).timeline.endMs;
  return {
    scenario,
    request: { patience: scenario.patience },
    servers,
    callers: tiers.map((tier, index) => createCallers(scenario, tier, index, options)),
    isPlain: tiers.map((tier, index) => isPlainTier(tier) && (index > 0 || !options.ownGuard)),
    heap: createHeap(),
    tally: createTally({ horizonMs, windowMs, troubleEndMs }),
    trace: options.trace,
    calls: createCalls(),
    requests: createRequests(),
    arrivals: drawsOf(seed, "arrivals"),
    wire: drawsOf(seed, "wire"),
    chance: drawsOf(seed, "server"),
    jitter: drawsOf(seed, "jitter"),
    guardDraw: drawsOf(seed, "guards").next,
    callsOf: new Float64Array(count),
    successesOf: new Float64Array(count),
    now: 0,
    onDone: () => undefined,
  };
}

/** Clients have guards of their own or share one set; a tier is one caller. */
function createCallers(
  scenario: CallsScenario,
  tier: Tier,
  index: number,
  { ownGuard }: RunOptions,
): Caller[] {
  const apart = index === 0 && scenario.guards === "PER_CLIENT" && (!isPlainTier(tier) || ownGuard);
  const count = apart ? (scenario.clients.count ?? 1) : 1;
  return Array.from({ length: count }, (_, client) =>
    createCaller(tier, index === 0 ? ownGuard?.(client) : undefined),
  );
}

export function tierOf(world: World, index: number): Tier {
  return world.scenario.tiers[index] as Tier;
}

export function serverOf(world: World, index: number): Server {
  return world.servers[index] as Server;
}

export function callerOf({ callers, calls }: World, call: number): Caller {
  const ofTier = callers[calls.tier[call] as number] as readonly Caller[];
  return (ofTier[calls.caller[call] as number] ?? ofTier[0]) as Caller;
}

/** Whole ms for guards: they count by them. */
export function wholeNow(world: World): number {
  return Math.floor(world.now);
}

/** True if the attempt that sent the request still waits for it. */
export function isAwaited({ calls, requests }: World, request: number): boolean {
  const call = requests.call[request] as number;
  return (requests.generation[request] as number) === (calls.generation[call] as number);
}

/** Sends the answer of a request on its way back. */
export function answer(world: World, request: number, outcome: number): void {
  const { requests, heap, wire } = world;
  requests.answer[request] = outcome;
  retain(requests, request);
  const server = serverOf(world, requests.tier[request] as number);
  pushEvent(heap, world.now + server.hop(wire), ANSWER, request);
}
