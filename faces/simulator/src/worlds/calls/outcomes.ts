/**
 * Outcomes: ends attempts on a response or a timeout. Core's `decide` chooses what follows; this
 * file only carries it out.
 */
import {
  classifyOutcome,
  decide,
  OPEN_GATES,
  type Outcome,
  type Permit,
  type Verdict,
} from "@redrive/core";
import { pushEvent } from "../../events/heap.ts";
import { gatesOf, leaveGuards } from "../client-server/caller.ts";
import { NONE, release } from "../client-server/pools.ts";
import { responseOutcome, TIMED_OUT } from "../client-server/response-outcome.ts";
import { admissionFor, endCall, historyOf } from "./call-state.ts";
import { callerOf, isAwaited, SEND, serverOf, tierOf, type World } from "./world.ts";

const ABORTED: Outcome = { kind: "aborted" };

export function onTimeout(world: World, request: number): void {
  onEnd(world, request, TIMED_OUT);
}

export function onResponse(world: World, request: number): void {
  const { requests, script } = world;
  const { retryAfterMs } = serverOf(world, requests.tier[request] as number);
  const response = requests.response[request] as number;
  onEnd(world, request, script?.outcomeOf(request) ?? responseOutcome(response, retryAfterMs));
}

function onEnd(world: World, request: number, outcome: Outcome): void {
  const { requests } = world;
  const awaited = isAwaited(world, request);
  const call = requests.call[request] as number;
  release(requests, request);
  if (awaited) endCopy(world, call, request, outcome);
}

/**
 * One copy ended. A success ends its attempt. A failure ends it if no other copy is in progress.
 */
function endCopy(world: World, call: number, request: number, outcome: Outcome): void {
  const { calls } = world;
  const { policy } = tierOf(world, calls.tier[call] as number).destination;
  const verdict = classifyOutcome(policy, outcome);
  unlink(world, call, request);
  const isLast = verdict === "success" || (calls.live[call] as number) === NONE;
  if (isLast) calls.generation[call] = (calls.generation[call] as number) + 1;
  leave(world, call, request, outcome, verdict);
  if (verdict === "success") {
    abortCopies(world, call);
    endCall(world, call, undefined);
    return;
  }
  const combined = withQuietPeriod(world, call, outcome);
  if (isLast) fail(world, call, combined, verdict);
}

/**
 * Removes the request from its call before the guards admit the next call, which may reuse the row.
 */
function unlink({ calls, requests }: World, call: number, request: number): void {
  const next = requests.sibling[request] as number;
  requests.generation[request] = NONE;
  let before = calls.live[call] as number;
  if (before === request) {
    calls.live[call] = next;
    return;
  }
  while ((requests.sibling[before] as number) !== request) {
    before = requests.sibling[before] as number;
  }
  requests.sibling[before] = next;
}

/**
 * Losing copies carry no information about the server. Their rows become free when they time out.
 */
function abortCopies(world: World, call: number): void {
  const { calls, requests } = world;
  let copy = calls.live[call] as number;
  for (; copy !== NONE; copy = requests.sibling[copy] as number) {
    leave(world, call, copy, ABORTED, "aborted");
  }
}

function leave(
  world: World,
  call: number,
  request: number,
  outcome: Outcome,
  verdict: Verdict,
): void {
  const { calls, requests, permits } = world;
  if (world.isPlain[calls.tier[call] as number]) return;
  const durationMs = world.now - (requests.sentAt[request] as number);
  const permit = permits[request] as Permit;
  permits[request] = undefined;
  const shard = calls.shard[call] as number;
  leaveGuards(callerOf(world, call), permit, shard, outcome, verdict, durationMs);
}

/** Applies the Retry-After of one copy to the whole attempt: to its other copies and its retry. */
function withQuietPeriod(world: World, call: number, outcome: Outcome): Outcome {
  const { calls, now } = world;
  if (!tierOf(world, calls.tier[call] as number).destination.hedge) return outcome;
  const askedUntil = now + (outcome.retryAfterMs ?? 0);
  const quietUntil = Math.max(calls.quietUntil[call] as number, askedUntil);
  calls.quietUntil[call] = quietUntil;
  return quietUntil > now ? { ...outcome, retryAfterMs: quietUntil - now } : outcome;
}

/** An attempt failed: core decides what follows. */
function fail(world: World, call: number, outcome: Outcome, verdict: Verdict): void {
  const { calls, script } = world;
  const tier = calls.tier[call] as number;
  const { policy } = tierOf(world, tier).destination;
  calls.throttled[call] = verdict === "throttled" ? 1 : 0;
  const caller = world.isPlain[tier] ? undefined : callerOf(world, call);
  const shard = calls.shard[call] as number;
  const gates = caller ? gatesOf(caller, admissionFor(world, call), shard) : OPEN_GATES;
  const random = script?.randomOf(call) ?? world.jitter;
  const history = historyOf(world, call);
  const { now } = world;
  const decision = decide(policy, world.request, history, outcome, gates, now, random);
  if (decision.kind === "stop") {
    endCall(world, call, decision.reason);
    return;
  }
  calls.previousMs[call] = decision.ownDelayMs;
  if (decision.kind === "retry" && caller?.custom?.takeRetry && !caller.custom.takeRetry()) {
    endCall(world, call, "retry-budget");
    return;
  }
  const waitMs = decision.kind === "hold" ? decision.until - now : decision.delayMs;
  if ((calls.parent[call] as number) === NONE) world.tally.waitedMs += waitMs;
  pushEvent(world.heap, now + waitMs, SEND, call);
}
