/**
 * Outcomes: how attempts end, by an answer or a timeout, and what follows. That is core's `decide`;
 * this file only carries it out.
 */
import { decide, type Outcome, statusOutcome, takeRetry } from "@redrive/core";
import { pushEvent } from "../engine/heap.ts";
import { endCall, gatesFor, historyOf, wakeNext } from "./call-state.ts";
import { type Ending, guardsOf, leaveGuards } from "./caller.ts";
import { NONE, release } from "./pools.ts";
import { FAILED, OK, THROTTLED } from "./server.ts";
import { callerOf, isAwaited, SEND, serverOf, tierOf, type World, wholeNow } from "./world.ts";

const TIMED_OUT: Outcome = { kind: "error", errorClass: "timeout", sent: true };
const FAILURE: Outcome = statusOutcome(500);

export function onTimeout(world: World, request: number): void {
  const { requests } = world;
  const awaited = isAwaited(world, request);
  const call = requests.call[request] as number;
  release(requests, request);
  if (awaited) failCopy(world, call, request, TIMED_OUT);
}

export function onAnswer(world: World, request: number): void {
  const { requests } = world;
  const awaited = isAwaited(world, request);
  const call = requests.call[request] as number;
  const outcome = requests.answer[request] as number;
  release(requests, request);
  if (!awaited) return;
  if (outcome === OK) {
    settle(world, call, request, "success", false);
    endCall(world, call, undefined);
    return;
  }
  const { retryAfterMs } = serverOf(world, requests.tier[request] as number);
  const status = outcome === THROTTLED ? 429 : 503;
  const failure = outcome === FAILED ? FAILURE : statusOutcome(status, retryAfterMs);
  failCopy(world, call, request, failure);
}

/** One copy failed; the attempt goes on while another is out. */
function failCopy(world: World, call: number, request: number, outcome: Outcome) {
  const { calls, requests } = world;
  const others = (requests.sibling[calls.live[call] as number] as number) !== NONE;
  if (others) dropCopy(world, call, request, outcome);
  else fail(world, call, request, outcome);
}

function dropCopy(world: World, call: number, request: number, outcome: Outcome): void {
  const { calls, requests } = world;
  leave(world, call, request, kindOf(outcome), isThrottled(outcome));
  let before = calls.live[call] as number;
  if (before === request) calls.live[call] = requests.sibling[request] as number;
  while (before !== NONE && (requests.sibling[before] as number) !== request) {
    before = requests.sibling[before] as number;
  }
  if (before !== NONE) requests.sibling[before] = requests.sibling[request] as number;
  requests.generation[request] = NONE;
}

/** Only overload and silence say that there are too many calls. */
function kindOf(outcome: Outcome): Ending["kind"] {
  return outcome === FAILURE ? "failure" : "dropped";
}

function isThrottled(outcome: Outcome): boolean {
  return outcome.kind === "status" && outcome.status === 429;
}

/** Ends the attempt: `request` decided it, any other copy is aborted. */
function settle(
  world: World,
  call: number,
  request: number,
  kind: Ending["kind"],
  throttled: boolean,
) {
  const { calls, requests } = world;
  let copy = calls.live[call] as number;
  calls.live[call] = NONE;
  calls.generation[call] = (calls.generation[call] as number) + 1;
  while (copy !== NONE) {
    const next = requests.sibling[copy] as number;
    leave(world, call, copy, copy === request ? kind : "ignored", throttled);
    copy = next;
  }
}

function leave(
  world: World,
  call: number,
  request: number,
  kind: Ending["kind"],
  throttled: boolean,
) {
  const { calls, requests } = world;
  const tier = requests.tier[request] as number;
  if (world.isPlain[tier] && !tierOf(world, tier).destination.hedge) return;
  const caller = callerOf(world, call);
  const entry = { pass: requests.pass[request] as number, slot: requests.slot[request] as number };
  const tookMs = world.now - (requests.sentAt[request] as number);
  const ticket = requests.ticket[request] as number;
  const patient = world.scenario.patience === "wait";
  const ending: Ending = { kind, throttled, tookMs, ticket, patient };
  leaveGuards(caller, wholeNow(world), calls.shard[call] as number, entry, ending, world.guardDraw);
  wakeNext(world, caller);
}

/** An attempt failed: core decides what follows. */
function fail(world: World, call: number, request: number, outcome: Outcome): void {
  const { calls } = world;
  const throttled = isThrottled(outcome);
  settle(world, call, request, kindOf(outcome), throttled);
  const caller = callerOf(world, call);
  const now = wholeNow(world);
  const { policy } = tierOf(world, calls.tier[call] as number).destination;
  calls.ticket[call] = 0;
  const gates = world.isPlain[calls.tier[call] as number] ? {} : gatesFor(world, call, throttled);
  const history = historyOf(world, call);
  const decision = decide(policy, world.request, history, outcome, gates, world.now, world.jitter);
  if (decision.kind === "stop") {
    endCall(world, call, decision.reason);
    return;
  }
  calls.previousMs[call] = decision.ownDelayMs;
  if (decision.kind === "retry") {
    if (caller.own?.takeRetry && !caller.own.takeRetry()) {
      endCall(world, call, "retry-budget");
      return;
    }
    const { retryBudget } = guardsOf(caller, calls.shard[call] as number);
    if (retryBudget) calls.ticket[call] = takeRetry(retryBudget, now, throttled);
  }
  const at = decision.kind === "hold" ? decision.until : world.now + decision.delayMs;
  if ((calls.parent[call] as number) === NONE) world.tally.waitedMs += at - world.now;
  pushEvent(world.heap, at, SEND, call);
}
