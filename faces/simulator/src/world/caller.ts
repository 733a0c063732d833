/**
 * Caller: whoever makes calls to a tier, with core's guards of the destination around it. All
 * questions about retrying are core's (`decide`, `admit`, `gatesOf`); this file only enters and
 * leaves the guards in the order of the library: rate, breaker, concurrency.
 */
import {
  createBreaker,
  createGuards,
  enterBreaker,
  enterConcurrency,
  enterThrottle,
  type Guards,
  guardOptionsOf,
  leaveBreaker,
  leaveConcurrency,
  noteAccept,
  noteAnswer,
  noteFailure,
  noteFirst,
  noteSuccess,
  recordLatency,
  restartRamp,
  takeAdaptiveRate,
  takeRate,
} from "@redrive/core";
import type { Tier } from "../scenario.ts";

/** A guard of a lab's own, for published models that count otherwise than core. */
export interface OwnGuard {
  /** A first attempt starts. */
  noteFirst?(): void;
  /** May a retry leave? Takes what it costs. */
  takeRetry?(): boolean;
  /** May any call leave? */
  enter?(now: number, shard: number): boolean;
  /** An attempt ended. */
  leave?(now: number, shard: number, ok: boolean): void;
}

export interface Caller {
  /** One set for all shards, or one per shard if the breaker is kept per shard. */
  readonly guards: readonly Guards[];
  readonly own: OwnGuard | undefined;
  /** Calls that wait for a slot of the concurrency limit. */
  readonly waiting: number[];
}

export function createCaller(tier: Tier, own: OwnGuard | undefined): Caller {
  const options = guardOptionsOf(tier.destination);
  const first = createGuards(options, 0);
  const { breaker } = options;
  const shards = tier.breakerPerShard ? (tier.server.shards ?? 1) : 1;
  const guards = [first];
  // Everything but the breaker is shared among the shards.
  for (let shard = 1; shard < shards; shard++) {
    if (breaker) guards.push({ ...first, breaker: createBreaker(breaker, 0) });
  }
  return { guards, own, waiting: [] };
}

export function guardsOf(caller: Caller, shard: number): Guards {
  return (caller.guards[shard] ?? caller.guards[0]) as Guards;
}

export function noteFirstCall(caller: Caller, now: number): void {
  const { retryBudget } = guardsOf(caller, 0);
  if (retryBudget) noteFirst(retryBudget, now);
  caller.own?.noteFirst?.();
}

/** Why an attempt may not leave: core's word for it, "no slot", or a guard of a lab's own. */
export type Refusal = "circuit-open" | "overload" | "no slot" | "own guard";

/** What an attempt that may leave holds; handed back by `leaveGuards`. */
export interface Entry {
  readonly pass: number;
  /** 0 no slot held, 1 as first attempt, 2 as retry. */
  readonly slot: number;
}

export const NO_ENTRY: Entry = { pass: 0, slot: 0 };

/** Enters every guard, or says which one refused. `draw` is for the throttle. */
export function enterGuards(
  caller: Caller,
  now: number,
  shard: number,
  isRetry: boolean,
  draw: () => number,
): Entry | Refusal {
  const guards = guardsOf(caller, shard);
  const { rate, adaptiveRate, throttle, breaker } = guards;
  if (caller.own?.enter && !caller.own.enter(now, shard)) return "own guard";
  if (throttle && !enterThrottle(throttle, now, draw())) return "overload";
  // Holds for rates were `admit`'s; by now there is room.
  if (rate) takeRate(rate, now);
  if (adaptiveRate) takeAdaptiveRate(adaptiveRate, now);
  const pass = breaker ? enterBreaker(breaker, now) : 0;
  return breaker && pass === 0 ? "circuit-open" : takeSlot(guards, now, pass, isRetry);
}

function takeSlot({ breaker, concurrency }: Guards, now: number, pass: number, isRetry: boolean) {
  if (!concurrency) return { pass, slot: 0 };
  if (enterConcurrency(concurrency, isRetry)) return { pass, slot: isRetry ? 2 : 1 };
  if (breaker) leaveBreaker(breaker, now, pass, "ignored", 0, 0);
  return "no slot";
}

/** How an attempt ended, as the guards see it. */
export interface Ending {
  readonly kind: "success" | "failure" | "dropped" | "ignored";
  readonly throttled: boolean;
  readonly tookMs: number;
  /** What the retry budget granted; 0 for a first attempt. */
  readonly ticket: number;
  readonly patient: boolean;
}

/** Leaves every guard and tells it how the attempt ended. */
export function leaveGuards(
  caller: Caller,
  now: number,
  shard: number,
  entry: Entry,
  ending: Ending,
  draw: () => number,
): void {
  const guards = guardsOf(caller, shard);
  const { breaker, concurrency } = guards;
  if (breaker && entry.pass > 0) {
    const outcome = ending.kind === "dropped" ? "failure" : ending.kind;
    const wasClosed = breaker.state === "CLOSED";
    leaveBreaker(breaker, now, entry.pass, outcome, ending.tookMs, draw());
    if (!wasClosed && breaker.state === "CLOSED" && concurrency) restartRamp(concurrency);
  }
  if (concurrency && entry.slot > 0) {
    const outcome = ending.kind === "failure" ? "ignored" : ending.kind;
    leaveConcurrency(concurrency, now, entry.slot === 2, outcome, ending.tookMs);
  }
  if (ending.kind !== "ignored") tellRest(caller, guards, now, shard, ending);
}

function tellRest(
  caller: Caller,
  { retryBudget, throttle, adaptiveRate, latency }: Guards,
  now: number,
  shard: number,
  ending: Ending,
): void {
  const ok = ending.kind === "success";
  caller.own?.leave?.(now, shard, ok);
  if (adaptiveRate) noteAnswer(adaptiveRate, now, ending.throttled);
  if (throttle && ending.kind !== "dropped") noteAccept(throttle, now);
  if (ok) {
    recordLatency(latency, now, Math.max(1, Math.floor(ending.tookMs)));
    if (retryBudget) noteSuccess(retryBudget, ending.ticket, ending.patient);
  } else if (retryBudget) noteFailure(retryBudget);
}
