/**
 * Attempts: starts calls and their attempts. Core's `Admission` decides whether an attempt may
 * start; this file only carries it out.
 */
import type { Random } from "@redrive/core";
import { pushEvent } from "../../events/heap.ts";
import { countAt, OFFERED } from "../../measure/tally.ts";
import { isPlainTier } from "../../scenario/scenario.ts";
import {
  askToSend,
  type Caller,
  createCaller,
  type Engine,
  expireCall,
  ringAlarm,
} from "../tier/caller.ts";
import { NONE, takeRow } from "../tier/pools.ts";
import { applicantFor, endCall, historyOf } from "./call-state.ts";
import { send } from "./sending.ts";
import { callerOf, EXPIRE, RING, type RunOptions, serverOf, type World } from "./world.ts";

/**
 * Each tier is one caller. The clients of the first tier share one set of guards, or each client is
 * a caller.
 */
export function addCallers(world: World, random: Random, { ownGuard }: RunOptions = {}): void {
  const { scenario, callers, isPlain, request } = world;
  const { tiers, guards, clients } = scenario;
  const engine = engineOf(world);
  for (const [number, tier] of tiers.entries()) {
    if (isPlain[number]) continue;
    const own = number === 0 ? ownGuard : undefined;
    const isApart = number === 0 && (own || !isPlainTier(tier)) && guards === "PER_CLIENT";
    const first = isApart ? tiers.length : number;
    const count = isApart ? (clients.count ?? 1) : 1;
    for (let caller = first; caller < first + count; caller++) {
      const ofCaller = own?.(caller - first);
      callers[caller] = createCaller(caller, tier, request, engine, random, ofCaller);
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
      pushEvent(heap, at, RING, caller);
      return heap.order;
    },
  };
}

/** Starts a call to a tier. `parent` is the request that it serves, or NONE. */
export function startCall(world: World, tier: number, client: number, parent: number): void {
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
  if (!world.isPlain[tier]) callerOf(world, call).own?.noteFirst?.();
  tryAttempt(world, call);
}

/** The next attempt is due. It is sent if the guards admit it. */
export function tryAttempt(world: World, call: number): void {
  const { calls } = world;
  if (world.isPlain[calls.tier[call] as number]) {
    send(world, call, undefined, 0);
    return;
  }
  const caller = callerOf(world, call);
  const shard = calls.shard[call] as number;
  world.script?.onDue(call);
  const { own } = caller;
  if (own?.enter && !own.enter(Math.floor(world.now), shard)) endCall(world, call, "own guard");
  else askToSend(caller, call, applicantFor(world, call), shard);
}

export function onExpire(world: World, call: number): void {
  expireCall(callerOf(world, call), call);
}

export function onRing({ callers, heap }: World, caller: number): void {
  ringAlarm(callers[caller] as Caller, heap.order);
}
