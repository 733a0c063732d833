/**
 * Caller: a client, or a tier that calls the next one, with the guards of its destination. Only
 * core's `Admission` changes the guards; core's `WaitingCalls` keeps the calls that they hold. Both
 * engines of calls use this file. An engine decides only when things happen, and carries out the
 * results.
 */
import {
  Admission,
  type AdmissionRequest,
  type AdmitDecision,
  admissionRequestOf,
  admit,
  type Breaker,
  type BreakerOptions,
  type CallHistory,
  type CallRequest,
  createBreaker,
  createGuards,
  type EntryGate,
  type Gates,
  type Guards,
  guardOptionsOf,
  HEDGE_REQUEST,
  type HoldReason,
  OPEN_ENTRY,
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
import type { Tier } from "../scenario/scenario.ts";

/**
 * A guard that a lab supplies for published models that count differently from core. It is checked
 * before core's guards.
 */
export interface CustomGuard {
  /** A first attempt starts. */
  onFirst?(): void;
  /** Returns whether a retry may be sent, and takes its cost. */
  takeRetry?(): boolean;
  /** Returns whether any attempt may be sent. */
  enter?(now: number, shard: number): boolean;
  /** An attempt ended. */
  leave?(now: number, shard: number, ok: boolean): void;
}

/** What a caller needs from the engine that runs it. Calls are numbers; instants are epoch ms. */
export interface Engine {
  /** May be a fraction of a ms. */
  now(): number;
  historyOf(call: number): CallHistory;
  send(call: number, permit: Permit): void;
  end(call: number, reason: StopReason, by?: HoldReason): void;
  /** The call waits. The engine must call `expireCall` at this instant. */
  setExpiry(call: number, at: number): void;
  /** Returns a number. The engine must call `onAlarm` of the caller with it at this instant. */
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
  readonly custom: CustomGuard | undefined;
  readonly guards: Guards;
  readonly admission: Admission;
  readonly waiting: WaitingCalls<number>;
  /** One per shard, if each shard has its own breaker; the shards share everything else. */
  readonly breakers: readonly Breaker[];
  /** By call: its entry in the queue. */
  readonly entries: WaitingEntry<number>[];
  /** When the caller must wake next, and the number of that event. */
  alarmAt: number;
  alarm: number;
}

export function createCaller(
  index: number,
  { destination, breakerPerShard, server }: Tier,
  request: CallRequest,
  engine: Engine,
  random: Random,
  custom: CustomGuard | undefined,
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
    custom,
    guards,
    admission,
    waiting: new WaitingCalls<number>(admission, {
      decideEntry: (call, _now, by, usualCallMs) =>
        decisionOf(caller, call, OPEN_ENTRY, by, usualCallMs),
      admitted: engine.send,
      refused: (call, reason, _now, by) => engine.end(call, reason, by),
    }),
    breakers: Array.from({ length: shards }, () => createBreaker(breaker as BreakerOptions, now)),
    entries: [],
    alarmAt: NEVER,
    alarm: NO_ALARM,
  };
  return caller;
}

/** Guards use whole ms. */
function nowInWholeMs({ engine }: Caller): number {
  return Math.floor(engine.now());
}

function breakerOf({ breakers, guards }: Caller, shard: number): Breaker | undefined {
  return breakers[shard] ?? guards.breaker;
}

/** An attempt is due: it is sent, it waits, or its call ends. */
export function requestSend(
  caller: Caller,
  call: number,
  admissionRequest: AdmissionRequest,
  shard: number,
): void {
  const { engine, admission, waiting } = caller;
  const breaker = breakerOf(caller, shard);
  const permit = waiting.enter(admissionRequest, breaker, nowInWholeMs(caller));
  const { refusal = "hold" } = admission;
  if (permit) engine.send(call, permit);
  else if (refusal !== "hold") engine.end(call, refusal);
  else {
    const decision = decisionOf(caller, call, admission);
    if (decision.kind === "stop") engine.end(call, decision.reason, decision.by);
    else hold(caller, call, waiting.join(call, admissionRequest, breaker));
  }
}

function hold(caller: Caller, call: number, entry: WaitingEntry<number> | undefined): void {
  const { engine, waiting, entries } = caller;
  if (!entry) {
    engine.end(call, "overload");
    return;
  }
  entries[call] = entry;
  engine.setExpiry(call, engine.historyOf(call).startedAt + caller.policy.totalBudgetMs);
  if (waiting.wakeAt <= nowInWholeMs(caller)) wake(caller);
  else arm(caller, waiting.wakeAt);
}

/** A permit for a hedge, or undefined. A hedge never waits: without a permit it is not sent. */
export function requestHedge(caller: Caller, shard: number): Permit | undefined {
  return caller.waiting.enter(HEDGE_REQUEST, breakerOf(caller, shard), nowInWholeMs(caller));
}

/** The gates of the next retry, for `decide`. */
export function gatesOf(caller: Caller, admissionRequest: AdmissionRequest, shard: number): Gates {
  return retryGates(
    caller.admission,
    admissionRequest,
    breakerOf(caller, shard),
    nowInWholeMs(caller),
  );
}

/**
 * An attempt ended: records its outcome in the guards and sends waiting calls that they now admit.
 */
export function leaveGuards(
  caller: Caller,
  permit: Permit,
  shard: number,
  outcome: Outcome,
  verdict: Verdict,
  durationMs: number,
): void {
  const { admission, custom, policy } = caller;
  const now = nowInWholeMs(caller);
  if (verdict !== "aborted") custom?.leave?.(now, shard, verdict === "success");
  admission.leave(permit, breakerOf(caller, shard), policy, outcome, verdict, durationMs, now);
  wake(caller);
}

/** Checks the waiting calls again after a guard may have changed. */
function wake(caller: Caller): void {
  const { waiting } = caller;
  if (waiting.size === 0) return;
  waiting.wake(nowInWholeMs(caller));
  arm(caller, waiting.wakeAt);
}

function arm(caller: Caller, at: number): void {
  if (at === caller.alarmAt) return;
  caller.alarmAt = at;
  caller.alarm = at < NEVER ? caller.engine.setAlarm(caller.index, at) : NO_ALARM;
}

/** An alarm is due. It is ignored if it was set to another instant since then. */
export function onAlarm(caller: Caller, alarm: number): void {
  if (alarm !== caller.alarm) return;
  caller.alarmAt = NEVER;
  wake(caller);
}

/**
 * A call's total budget is over. The call ends if it still waits; its number may belong to another
 * call by now.
 */
export function expireCall(caller: Caller, call: number): void {
  const { waiting, entries, engine } = caller;
  const entry = entries[call];
  if (!entry?.isWaiting) return;
  const decision = decisionOf(caller, call, OPEN_ENTRY, entry.lane.heldBy);
  if (decision.kind !== "stop") return;
  waiting.remove(entry);
  if (waiting.size === 0) arm(caller, NEVER);
  engine.end(call, decision.reason, decision.by);
}

/** May the call's next attempt start? With whole ms it could wait past the end of its budget. */
function decisionOf(
  { engine, policy, request }: Caller,
  call: number,
  gate: EntryGate,
  heldBy?: HoldReason,
  usualCallMs?: number,
): AdmitDecision {
  const history = { ...engine.historyOf(call), heldBy };
  return admit(policy, request, history, gate, engine.now(), usualCallMs);
}

/** The guard that held the call last. Only for calls that were held. */
export function holdReasonOf({ entries }: Caller, call: number): HoldReason | undefined {
  return entries[call]?.lane.heldBy;
}

/**
 * The admission requests of a scenario: a first attempt, a retry, a retry after a throttling
 * response.
 */
export function admissionsOf({ patience }: CallRequest): readonly AdmissionRequest[] {
  const patient = patience === "wait";
  return [
    admissionRequestOf(false, patient, false),
    admissionRequestOf(true, patient, false),
    admissionRequestOf(true, patient, true),
  ];
}
