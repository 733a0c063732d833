/**
 * Attempts: starts calls and their attempts. Core's `Admission` decides whether an attempt may
 * start; this file only carries it out.
 */
import type { Random } from "@redrive/core";
import { pushEvent } from "../../events/heap.ts";
import { countAt, OFFERED } from "../../measure/tally.ts";
import { isPlainTier } from "../../scenario/scenario.ts";
import {
  type Caller,
  createCaller,
  type Engine,
  expireCall,
  onAlarm,
  requestSend,
} from "../client-server/caller.ts";
import { NONE, takeRow } from "../client-server/pools.ts";
import { admissionFor, endCall, historyOf } from "./call-state.ts";
import { send } from "./sending.ts";
import { ALARM, callerOf, EXPIRE, type RunOptions, serverOf, type World } from "./world.ts";

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
  if (!world.isPlain[tier]) callerOf(world, call).custom?.onFirst?.();
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
  const { custom } = caller;
  if (custom?.enter && !custom.enter(Math.floor(world.now), shard)) endCall(world, call, "custom");
  else requestSend(caller, call, admissionFor(world, call), shard);
}

export function onExpire(world: World, call: number): void {
  expireCall(callerOf(world, call), call);
}

export function onAlarmDue({ callers, heap }: World, caller: number): void {
  onAlarm(callers[caller] as Caller, heap.order);
}
