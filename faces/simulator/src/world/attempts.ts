/**
 * Attempts: calls are started here, and their attempts, first or not. Whether one may start is core's
 * `admit`; this file only carries it out.
 */
import { admit, breakerReadyAt, type Concurrency, takeRetry } from "@redrive/core";
import { pushEvent } from "../engine/heap.ts";
import { countAt, OFFERED } from "../measure/tally.ts";
import { endCall, gatesFor, historyOf, wakeNext } from "./call-state.ts";
import {
  type Caller,
  enterGuards,
  guardsOf,
  NO_ENTRY,
  noteFirstCall,
  type Refusal,
} from "./caller.ts";
import { NONE, takeRow } from "./pools.ts";
import { send } from "./sending.ts";
import { callerOf, SEND, serverOf, tierOf, type World, wholeNow } from "./world.ts";

/** Starts a call of `caller` to a tier; `parent` is the request it serves, or NONE. */
export function startCall(
  world: World,
  tier: number,
  caller: number,
  client: number,
  parent: number,
): void {
  const { calls, tally } = world;
  const call = takeRow(calls);
  const { shards } = serverOf(world, tier);
  calls.tier[call] = tier;
  calls.caller[call] = caller;
  calls.client[call] = client;
  calls.parent[call] = parent;
  calls.shard[call] = shards > 1 ? Math.floor(world.arrivals.next() * shards) : 0;
  calls.attempt[call] = 0;
  calls.startedAt[call] = world.now;
  calls.previousMs[call] = 0;
  calls.ticket[call] = 0;
  calls.live[call] = NONE;
  if (parent === NONE) {
    tally.calls++;
    world.callsOf[client] = (world.callsOf[client] as number) + 1;
    countAt(tally, OFFERED, world.now);
  }
  if (!world.isPlain[tier]) noteFirstCall(callerOf(world, call), wholeNow(world));
  tryAttempt(world, call);
}

/** Sends the next attempt if nothing stands in its way. */
export function tryAttempt(world: World, call: number): void {
  if (world.isPlain[world.calls.tier[call] as number]) {
    send(world, call, NO_ENTRY, 0, 0);
    return;
  }
  const caller = callerOf(world, call);
  // A call that was woken for a slot and does not take it leaves it to the next.
  if (!passGuards(world, call, caller)) wakeNext(world, caller);
}

/** False if the call neither left nor waits for a slot. */
function passGuards(world: World, call: number, caller: Caller): boolean {
  const { calls } = world;
  const now = wholeNow(world);
  const { policy } = tierOf(world, calls.tier[call] as number).destination;
  const admission = admit(
    policy,
    world.request,
    historyOf(world, call),
    gatesFor(world, call),
    // Not in whole ms, or an attempt could leave after the end of the call's budget.
    world.now,
  );
  if (admission.kind === "hold") {
    pushEvent(world.heap, admission.until, SEND, call);
    return false;
  }
  const stopped = admission.kind === "stop" ? admission.reason : undefined;
  const reason = stopped ?? (drawTicket(world, call, caller, now) ? undefined : "retry-budget");
  if (reason !== undefined) {
    endCall(world, call, reason);
    return false;
  }
  const isRetry = (calls.attempt[call] as number) > 0;
  const shard = calls.shard[call] as number;
  const entry = enterGuards(caller, now, shard, isRetry, world.guardDraw);
  if (typeof entry === "string") return refuse(world, call, caller, entry);
  send(world, call, entry, 0, calls.ticket[call] as number);
  return true;
}

/** A retry that was held has no ticket yet; first attempts need none. */
function drawTicket({ calls }: World, call: number, caller: Caller, now: number): boolean {
  const { retryBudget } = guardsOf(caller, calls.shard[call] as number);
  const needs = retryBudget && (calls.attempt[call] as number) > 0;
  if (!needs || (calls.ticket[call] as number) > 0) return true;
  calls.ticket[call] = takeRetry(retryBudget, now, false);
  return (calls.ticket[call] as number) > 0;
}

/** A guard refused: the call waits if it may, else it is over. True if it waits for a slot. */
function refuse(world: World, call: number, caller: Caller, why: Refusal): boolean {
  const { breaker, concurrency } = guardsOf(caller, world.calls.shard[call] as number);
  const isRetry = (world.calls.attempt[call] as number) > 0;
  if (why === "no slot" && concurrency && mayQueue(concurrency, caller, isRetry)) {
    caller.waiting.push(call);
    return true;
  }
  if (why === "circuit-open" && breaker && world.scenario.patience === "wait") {
    const at = Math.max(world.now + 1, breakerReadyAt(breaker, wholeNow(world)));
    pushEvent(world.heap, at, SEND, call);
  } else endCall(world, call, why === "no slot" ? "overload" : why);
  return false;
}

/** Retries that may never have a slot do not wait for one. */
function mayQueue({ options }: Concurrency, { waiting }: Caller, isRetry: boolean): boolean {
  return waiting.length < options.queue && !(isRetry && options.maxRetries === 0);
}
