/** Sending: sends attempts and hedges. */
import { type HedgeOptions, hedgeAfterMs, type Permit } from "@redrive/core";
import { pushEvent } from "../../events/heap.ts";
import { requestHedge } from "../client-server/caller.ts";
import { release, retain, takeRow } from "../client-server/pools.ts";
import { callerOf, HEDGE, REACH, serverOf, TIMEOUT, tierOf, type World } from "./world.ts";

/** Sends an attempt, or a hedge of it if `copy` is not 0. */
export function send(world: World, call: number, permit: Permit | undefined, copy: number): void {
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
export function onHedge(world: World, request: number): void {
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
