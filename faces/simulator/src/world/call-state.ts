/**
 * Call state: what core is told of a call, and the end of it. Shared by the file that starts attempts
 * and the one that hears how they end.
 */
import { type CallHistory, concurrencyLimit, type Gates, gatesOf, giveBack } from "@redrive/core";
import { pushEvent } from "../engine/heap.ts";
import { countLost, countSucceeded } from "../measure/tally.ts";
import { type Caller, guardsOf } from "./caller.ts";
import { NONE, release } from "./pools.ts";
import { FAILED, OK } from "./server.ts";
import { answer, callerOf, SEND, type World, wholeNow } from "./world.ts";

export function historyOf({ calls }: World, call: number): CallHistory {
  return {
    attempt: calls.attempt[call] as number,
    startedAt: calls.startedAt[call] as number,
    previousDelayMs: calls.previousMs[call] as number,
  };
}

/** A call that has drawn its ticket does not ask the budget again. */
export function gatesFor(world: World, call: number, throttled = false): Gates {
  const { calls } = world;
  const guards = guardsOf(callerOf(world, call), calls.shard[call] as number);
  const { retryBudgetUntil, ...gates } = gatesOf(guards, wholeNow(world), throttled);
  const holds = retryBudgetUntil !== undefined && (calls.ticket[call] as number) === 0;
  return holds ? { ...gates, retryBudgetUntil } : gates;
}

/** The call is over; `reason` is undefined for success. */
export function endCall(world: World, call: number, reason: string | undefined): void {
  const { calls, tally, now } = world;
  const parent = calls.parent[call] as number;
  const client = calls.client[call] as number;
  calls.generation[call] = (calls.generation[call] as number) + 1;
  if (reason !== undefined) returnTicket(world, call);
  calls.free.push(call);
  if (parent !== NONE) {
    answer(world, parent, reason === undefined ? OK : FAILED);
    release(world.requests, parent);
    return;
  }
  const tookMs = now - (calls.startedAt[call] as number);
  if (reason === undefined) {
    countSucceeded(tally, now, tookMs);
    world.successesOf[client] = (world.successesOf[client] as number) + 1;
  } else countLost(tally, reason, now);
  world.onDone(client, tookMs);
}

/** A retry that was drawn for and never left costs nothing; one that left has no ticket any more. */
function returnTicket(world: World, call: number): void {
  const ticket = world.calls.ticket[call] as number;
  if (ticket === 0) return;
  const { retryBudget } = guardsOf(callerOf(world, call), world.calls.shard[call] as number);
  if (retryBudget) giveBack(retryBudget, ticket);
}

/** If there is a slot and somebody waits for one, that call asks again. */
export function wakeNext(world: World, caller: Caller): void {
  const { concurrency } = guardsOf(caller, 0);
  if (!concurrency || concurrency.inFlight >= concurrencyLimit(concurrency)) return;
  const waiting = caller.waiting.shift();
  if (waiting !== undefined) pushEvent(world.heap, world.now, SEND, waiting);
}
