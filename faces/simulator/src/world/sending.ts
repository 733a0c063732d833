/** Sending: puts attempts and hedges on the wire. */
import { giveBack, type HedgeOptions, hedgeAfterMs, takeRetry } from "@redrive/core";
import { pushEvent } from "../engine/heap.ts";
import { type Entry, enterGuards, guardsOf } from "./caller.ts";
import { release, retain, takeRow } from "./pools.ts";
import {
  callerOf,
  HEDGE,
  isAwaited,
  REACH,
  serverOf,
  TIMEOUT,
  tierOf,
  type World,
  wholeNow,
} from "./world.ts";

/** Puts an attempt, or a hedge of it if `copy` is not 0, on the wire. */
export function send(world: World, call: number, entry: Entry, copy: number, ticket: number): void {
  const { calls, requests, heap, tally } = world;
  const tier = calls.tier[call] as number;
  const { destination } = tierOf(world, tier);
  const request = takeRow(requests);
  requests.call[request] = call;
  requests.generation[request] = calls.generation[call] as number;
  requests.tier[request] = tier;
  requests.shard[request] = calls.shard[call] as number;
  requests.sentAt[request] = world.now;
  requests.pass[request] = entry.pass;
  requests.slot[request] = entry.slot;
  requests.copy[request] = copy;
  requests.ticket[request] = ticket;
  requests.sibling[request] = calls.live[call] as number;
  requests.references[request] = 1;
  calls.live[call] = request;
  pushEvent(heap, world.now + serverOf(world, tier).hop(world.wire), REACH, request);
  if (tier === world.servers.length - 1) tally.attempts++;
  // Each copy has a timeout of its own, as in the library; until then its row is not free.
  const { attemptTimeoutMs, totalBudgetMs } = destination.policy;
  const leftMs = (calls.startedAt[call] as number) + totalBudgetMs - world.now;
  retain(requests, request);
  pushEvent(heap, world.now + Math.min(attemptTimeoutMs, leftMs), TIMEOUT, request);
  if (copy === 0) calls.attempt[call] = (calls.attempt[call] as number) + 1;
  if (destination.hedge) scheduleHedge(world, call, request, destination.hedge);
}

/** Looks again when the next copy may leave, if one may. */
function scheduleHedge(world: World, call: number, request: number, hedge: HedgeOptions): void {
  if ((world.requests.copy[request] as number) >= hedge.max) return;
  const { latency } = guardsOf(callerOf(world, call), 0);
  const afterMs = hedgeAfterMs(hedge, latency, wholeNow(world));
  if (afterMs === undefined) return;
  retain(world.requests, request);
  pushEvent(world.heap, world.now + afterMs, HEDGE, request);
}

/** A hedge leaves if the attempt is still under way, and the budget and the guards let it. */
export function onHedge(world: World, request: number): void {
  const { requests, calls } = world;
  const call = requests.call[request] as number;
  const awaited = isAwaited(world, request);
  release(requests, request);
  if (!awaited) return;
  const caller = callerOf(world, call);
  const now = wholeNow(world);
  const shard = calls.shard[call] as number;
  const { retryBudget } = guardsOf(caller, shard);
  const ticket = retryBudget ? takeRetry(retryBudget, now, false) : 0;
  if (retryBudget && ticket === 0) return;
  const entry = enterGuards(caller, now, shard, true, world.guardDraw);
  const copy = (requests.copy[request] as number) + 1;
  if (typeof entry !== "string") send(world, call, entry, copy, ticket);
  else if (retryBudget) giveBack(retryBudget, ticket);
}
