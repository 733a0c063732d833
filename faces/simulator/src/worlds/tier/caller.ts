/**
 * Caller: a client, or a tier that calls the next one, with the guards of its destination. Core's
 * `Admission` alone steps the guards; core's `WaitingCalls` keeps the calls that they hold. Both
 * engines of calls use this file. An engine only says when, and carries out what comes of it.
 */
import {
  Admission,
  type AdmissionRequest,
  admissionRequestOf,
  admit,
  type Breaker,
  type BreakerOptions,
  type CallHistory,
  type CallRequest,
  createBreaker,
  createGuards,
  type Gates,
  type Guards,
  guardOptionsOf,
  HEDGE_REQUEST,
  type HoldReason,
  type Outcome,
  type Permit,
  type Policy,
  type Random,
  retryGates,
  type StopReason,
  type Verdict,
  WaitingCalls,
  type WaitingEntry,
} from "@redrive/core";
import type { Tier } from "../../scenario/scenario.ts";

/** A guard of a lab's own, for published models that count otherwise than core. It is asked first. */
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

/** What a caller needs of the engine that runs it. Calls are numbers; instants are epoch ms. */
export interface Engine {
  /** Not necessarily whole. */
  now(): number;
  historyOf(call: number): CallHistory;
  send(call: number, permit: Permit): void;
  end(call: number, reason: StopReason, by?: HoldReason): void;
  /** The call waits. `expireCall` must be called at this instant. */
  setExpiry(call: number, at: number): void;
  /** Gives a number, with which `ring` of the caller must be called at this instant. */
  setAlarm(caller: number, at: number): number;
}

const NEVER = Number.POSITIVE_INFINITY;
const NO_ALARM = -1;

export interface Caller {
  /** Its number, for alarms. */
  readonly index: number;
  readonly engine: Engine;
  readonly policy: Policy;
  readonly request: CallRequest;
  readonly own: OwnGuard | undefined;
  readonly guards: Guards;
  readonly admission: Admission;
  readonly waiting: WaitingCalls<number>;
  /** One per shard, if the breaker is kept per shard; everything else is shared among the shards. */
  readonly breakers: readonly Breaker[];
  /** By call: its place in the queue. */
  readonly entries: WaitingEntry<number>[];
  /** When it must wake next, and the number of the event that will do it. */
  alarmAt: number;
  alarm: number;
}

export function createCaller(
  index: number,
  { destination, breakerPerShard, server }: Tier,
  request: CallRequest,
  engine: Engine,
  random: Random,
  own: OwnGuard | undefined,
): Caller {
  const { policy, retryAfterGate, breaker } = destination;
  const now = Math.floor(engine.now());
  const guards = createGuards(guardOptionsOf(destination), now);
  const admission = new Admission(guards, retryAfterGate, random);
  const shards = breaker && breakerPerShard ? (server.shards ?? 1) : 0;
  const caller: Caller = {
    index,
    engine,
    policy,
    request,
    own,
    guards,
    admission,
    waiting: new WaitingCalls<number>(admission, {
      mayStart: (call) => isInTime(caller, call) || endHeld(caller, call),
      admitted: engine.send,
      refused: (call, reason) => engine.end(call, reason),
    }),
    breakers: Array.from({ length: shards }, () => createBreaker(breaker as BreakerOptions, now)),
    entries: [],
    alarmAt: NEVER,
    alarm: NO_ALARM,
  };
  return caller;
}

/** Guards count by whole ms. */
function wholeNow({ engine }: Caller): number {
  return Math.floor(engine.now());
}

function breakerOf({ breakers, guards }: Caller, shard: number): Breaker | undefined {
  return breakers[shard] ?? guards.breaker;
}

/** An attempt is due: it is sent, it waits, or the call ends. */
export function askToSend(
  caller: Caller,
  call: number,
  applicant: AdmissionRequest,
  shard: number,
): void {
  const { engine, policy, request, admission, waiting } = caller;
  const breaker = breakerOf(caller, shard);
  const permit = waiting.enter(applicant, breaker, wholeNow(caller));
  const { refusal = "hold" } = admission;
  if (permit) engine.send(call, permit);
  else if (refusal !== "hold") engine.end(call, refusal);
  else {
    // Not in whole ms, or a call could wait past the end of its budget.
    const decision = admit(policy, request, engine.historyOf(call), admission, engine.now());
    if (decision.kind === "stop") engine.end(call, decision.reason, decision.by);
    else hold(caller, call, waiting.join(call, applicant, breaker));
  }
}

function hold(caller: Caller, call: number, entry: WaitingEntry<number> | undefined): void {
  const { engine, waiting, entries } = caller;
  if (!entry) {
    engine.end(call, "overload");
    return;
  }
  entries[call] = entry;
  engine.setExpiry(call, endOf(caller, call));
  if (waiting.wakeAt <= wholeNow(caller)) wake(caller);
  else arm(caller, waiting.wakeAt);
}

/** A permit for a hedge. A hedge is never held: without a permit it is not sent. */
export function askToHedge(caller: Caller, shard: number): Permit | undefined {
  return caller.admission.enter(HEDGE_REQUEST, breakerOf(caller, shard), wholeNow(caller));
}

/** What `decide` is told about the retry that may follow. */
export function gatesOf(caller: Caller, applicant: AdmissionRequest, shard: number): Gates {
  return retryGates(caller.admission, applicant, breakerOf(caller, shard), wholeNow(caller));
}

/** An attempt ended: the guards are told how, and whoever waits for them may go. */
export function leaveGuards(
  caller: Caller,
  permit: Permit,
  shard: number,
  outcome: Outcome,
  verdict: Verdict,
  durationMs: number,
): void {
  const { admission, own, policy } = caller;
  const now = wholeNow(caller);
  if (verdict !== "aborted") own?.leave?.(now, shard, verdict === "success");
  admission.leave(permit, breakerOf(caller, shard), policy, outcome, verdict, durationMs, now);
  wake(caller);
}

/** A guard may have changed. */
function wake(caller: Caller): void {
  const { waiting } = caller;
  if (waiting.size === 0) return;
  waiting.wake(wholeNow(caller));
  arm(caller, waiting.wakeAt);
}

function arm(caller: Caller, at: number): void {
  if (at === caller.alarmAt) return;
  caller.alarmAt = at;
  caller.alarm = at < NEVER ? caller.engine.setAlarm(caller.index, at) : NO_ALARM;
}

/** An alarm rings; one that was set to another instant since then counts for nothing. */
export function ringAlarm(caller: Caller, alarm: number): void {
  if (alarm !== caller.alarm) return;
  caller.alarmAt = NEVER;
  wake(caller);
}

/** A call's total budget is over: it ends if it still waits. Another may have got its number since. */
export function expireCall(caller: Caller, call: number): void {
  const { waiting, entries } = caller;
  const entry = entries[call];
  if (!entry?.isWaiting || isInTime(caller, call)) return;
  waiting.remove(entry);
  if (waiting.size === 0) arm(caller, NEVER);
  endHeld(caller, call);
}

/** When the call's total budget is over. */
function endOf({ engine, policy }: Caller, call: number): number {
  return engine.historyOf(call).startedAt + policy.totalBudgetMs;
}

function isInTime(caller: Caller, call: number): boolean {
  return caller.engine.now() < endOf(caller, call);
}

/** False: a call that has ended may not start. */
function endHeld(caller: Caller, call: number): false {
  const { engine } = caller;
  if (engine.historyOf(call).attempt > 0) engine.end(call, "budget");
  else engine.end(call, "held", holderOf(caller, call));
  return false;
}

/** The guard that held the call last; only for calls that have been held. */
export function holderOf({ entries }: Caller, call: number): HoldReason | undefined {
  return entries[call]?.lane.heldBy;
}

/** The applicants of a scenario: a first attempt, a retry, a retry after a throttling response. */
export function applicantsOf({ patience }: CallRequest): readonly AdmissionRequest[] {
  const patient = patience === "wait";
  return [
    admissionRequestOf(false, patient, false),
    admissionRequestOf(true, patient, false),
    admissionRequestOf(true, patient, true),
  ];
}
