/**
 * Runner: carries out claims that are committed, when their tasks are due. Between the commit and
 * the first byte it looks once more: a node that is stopping or whose lease is gone gives the claim
 * back uncounted. What it holds in memory is what no rescuer of this node may touch.
 */
import {
  admit,
  type Clock,
  type Decision,
  type HoldReason,
  OPEN_ENTRY,
  type Permit,
  type Policy,
  type Random,
  remainingMs,
} from "@redrive/core";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import { createLightSignal, type LightSignal } from "../../deliver/light-signal.ts";
import type { Settle, SettleResult, StartedTask, TaskRef } from "../../model/batch.ts";
import type { AttemptLog } from "../../model/task.ts";
import type { CommitLoop } from "../commit/commit-loop.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import { guardAt, type Hold } from "../destination/waiting-lane.ts";
import type { AttemptSummary, EngineEventBody, EngineEvents } from "../events/engine-events.ts";
import type { EngineTime } from "../node/engine-time.ts";
import type { PolicyCache } from "../policies/policy-cache.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import { SendQueue } from "../schedule/send-queue.ts";
import type { Deliver } from "./delivery.ts";
import {
  type FindDestination,
  type FollowUp,
  scheduleFollowUp,
  withFollowUps,
} from "./follow-up-tasks.ts";
import { heldText } from "./held-text.ts";
import {
  abandonedLogOf,
  attemptLogOf,
  CUT_OFF,
  decideEnding,
  entryHistoryOf,
  expirationOf,
  historyOf,
  isThrottled,
  releaseOf,
  requestOf,
  settleOf,
} from "./settlement.ts";

/** What the runner works with. */
export interface RunnerParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly random: Random;
  readonly deliver: Deliver;
  readonly policies: PolicyCache;
  readonly scheduler: Scheduler;
  readonly events: EngineEvents;
  readonly destinationOf: FindDestination;
  readonly follow: FollowUp;
  readonly turn: () => CommitLoop;
  /** May the attempt of a claim made at that instant be started now? */
  readonly mayStart: (now: number, claimedAt: number) => boolean;
}

interface Held {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly permit: Permit;
  /** What held it after it was due; undefined: nothing did. */
  readonly hold: Hold | undefined;
  readonly runsAlone: boolean;
  isWaiting: boolean;
  /** When its attempt left; 0 before. */
  startedAt: number;
  /** Ends its attempt; undefined while nothing is on the wire. */
  signal: LightSignal | undefined;
  /** Its place in the list. */
  slot: number;
}

export class Runner {
  readonly #parts: RunnerParts;
  /**
   * From the claim's commit to the settle's. A list and not a map: a map that is filled and emptied
   * all the time is copied again and again, and its old copies keep what has ended from being
   * collected young.
   */
  readonly #held: Held[] = [];
  readonly #departures: SendQueue<Held>;
  #running = 0;
  #underWay = 0;
  #alone = 0;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#departures = new SendQueue(parts.clock, parts.time, (held) => this.#prepare(held));
  }

  /** Attempts on the wire. */
  running(): number {
    return this.#running;
  }

  /** Those on the wire, and those that are about to leave. */
  underWay(): number {
    return this.#underWay;
  }

  /** Is a task under way that must be alone? */
  isAlone(): boolean {
    return this.#alone > 0;
  }

  holds(ref: number): boolean {
    return this.#held.some(({ task }) => task.ref === ref);
  }

  held(): number {
    return this.#held.length;
  }

  /** The claim is committed: carry it out. */
  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    hold: Hold | undefined,
  ): void {
    const runsAlone = task.abandonedCount >= 2;
    const slot = this.#held.length;
    const isWaiting = false;
    const startedAt = 0;
    const signal = undefined;
    const held: Held = {
      task,
      destination,
      permit,
      hold,
      runsAlone,
      isWaiting,
      startedAt,
      signal,
      slot,
    };
    this.#held.push(held);
    this.#underWay++;
    destination.users++;
    if (runsAlone) this.#alone++;
    if (task.nextAttemptAt > this.#parts.time.now()) this.#departures.add(held);
    else this.#prepare(held);
  }

  /** A task that is cancelled goes back if it waits to leave; true if it did. */
  recallClaim({ tenantId, taskId }: TaskRef): boolean {
    for (const held of this.#held) {
      const { task, isWaiting } = held;
      if (!isWaiting || task.taskId !== taskId || task.tenantId !== tenantId) continue;
      held.isWaiting = false;
      this.#release(held);
      return true;
    }
    return false;
  }

  #prepare(held: Held): void {
    const policy = this.#parts.policies.get(held.task);
    if (policy === undefined) this.#loadPolicy(held);
    else this.#check(held, policy);
  }

  #loadPolicy(held: Held): void {
    this.#parts.policies.load(held.task).then(
      (loaded) =>
        loaded === null ? this.#expire(held, "not-retryable") : this.#check(held, loaded),
      () => this.#release(held),
    );
  }

  #check(held: Held, policy: Policy): void {
    const { task, destination, permit, hold } = held;
    const now = this.#parts.time.now();
    const history = entryHistoryOf(task, hold?.by);
    // It has its permit, so no guard holds it now.
    const decision = admit(policy, requestOf(task), history, OPEN_ENTRY, now);
    const throttled = wasThrottled(policy, task);
    if (!this.#parts.mayStart(now, task.claimedAt)) this.#release(held);
    else if (decision.kind === "stop")
      this.#expire(held, decision.reason, heldBy(held, policy, now));
    else if (destination.refusesRetries && task.attemptNumber > 1) this.#expire(held, "overload");
    else if (destination.maySend(permit, now, throttled)) this.#send(held, policy, now);
    else this.#release(held, throttled ? payableAt(held, now) : undefined);
  }

  #send(held: Held, policy: Policy, now: number): void {
    const { task } = held;
    const history = historyOf(task, task.attemptNumber - 1);
    const leftMs = remainingMs(policy, requestOf(task), history, now);
    const attemptTimeoutMs = Math.max(1, Math.min(policy.attemptTimeoutMs, leftMs));
    const connectTimeoutMs = Math.min(policy.connectTimeoutMs, attemptTimeoutMs);
    this.#running++;
    this.#tellStarted(held, now);
    const signal = createLightSignal();
    held.startedAt = now;
    held.signal = signal;
    const limits = { attemptTimeoutMs, connectTimeoutMs, now, signal };
    this.#parts.deliver(task, limits, (result) => this.#ended(held, policy, result));
  }

  #ended(held: Held, policy: Policy, result: AttemptResult): void {
    const { task, destination, permit, startedAt } = held;
    const { time, random } = this.#parts;
    const now = time.now();
    this.#departures.look(now);
    this.#running--;
    this.#underWay--;
    held.signal = undefined;
    destination.recordOutcome(permit, now, policy, result.outcome, result.durationMs);
    this.#parts.scheduler.unblock(destination, now);
    // What this node aborted itself is a call whose outcome nobody saw.
    const isLost = result.outcome.kind === "aborted";
    const outcome = isLost ? ({ kind: "abandoned" } as const) : result.outcome;
    const gates = destination.gates(now, isThrottled(policy, outcome));
    const ending = { task, policy, outcome, gates, now, random, isCutOff: isLost };
    const log = isLost ? abandonedLogOf(task, now, CUT_OFF) : attemptLogOf(task, startedAt, result);
    const decision = decideEnding(ending);
    this.#settle(held, settleOf(ending, named(decision, result.errorClass), log));
  }

  /** The claim goes back as if it had not been made. */
  #release(held: Held, nextAttemptAt = held.task.nextAttemptAt): void {
    this.#unused(held);
    this.#settle(held, releaseOf(held.task, nextAttemptAt));
  }

  #expire(held: Held, reason: NonNullable<Settle["reason"]>, by?: HoldReason): void {
    this.#unused(held);
    const why = reason === "held" && by !== undefined ? heldText(by) : undefined;
    this.#settle(held, expirationOf(held.task, reason, why), by);
  }

  #unused({ destination, permit }: Held): void {
    const now = this.#parts.time.now();
    this.#underWay--;
    destination.returnPermit(permit, now);
    this.#parts.scheduler.unblock(destination, now);
  }

  #settle(held: Held, settled: Settle, by?: HoldReason): void {
    const { destination, task } = held;
    const endedAt = this.#parts.time.now();
    const settle = withFollowUps(this.#parts.follow, task, settled, endedAt);
    this.#parts.turn().addSettle({
      settle,
      destination,
      done: (result) => {
        this.#letGo(held);
        announce(this.#parts, { task, destination, settle, result, endedAt, by });
      },
    });
  }

  #letGo(held: Held): void {
    const last = this.#held.pop() as Held;
    if (last !== held) this.#held[held.slot] = last;
    last.slot = held.slot;
    held.destination.users--;
    if (held.runsAlone) this.#alone--;
  }

  /** Ends every attempt on the wire: the lease is gone, or the time to stop is up. */
  abort(reason: unknown): void {
    // A copy: what ends is settled, and leaves the list.
    for (const { signal } of [...this.#held]) signal?.abort(reason);
  }

  #tellStarted({ task, hold }: Held, now: number): void {
    const { tenantId, taskId, destination, attemptNumber, nextAttemptAt } = task;
    const event: WritableEvent = {
      type: "attempt.started",
      tenantId,
      taskId,
      destination,
      attemptNumber,
      lagMs: Math.max(0, now - nextAttemptAt),
    };
    if (hold !== undefined) event.heldBy = hold.by;
    this.#parts.events.emit(now, event);
  }
}

type WritableEvent = { -readonly [field in keyof EngineEventBody]: EngineEventBody[field] };

/** The guard that held a task when its time was over. */
function heldBy({ task, hold }: Held, policy: Policy, now: number): HoldReason | undefined {
  if (hold === undefined) return undefined;
  const leftMs = remainingMs(policy, requestOf(task), entryHistoryOf(task, hold.by), now);
  return guardAt(hold, now + leftMs);
}

/** Was the attempt before this one throttled? */
function wasThrottled(policy: Policy, { lastStatus }: StartedTask): boolean {
  return lastStatus !== null && isThrottled(policy, { kind: "status", status: lastStatus });
}

/**
 * When a retry after a throttling answer may be had at its price. A claim is made at the usual one: it
 * would be made again at once, and given back again.
 */
function payableAt({ task, destination }: Held, now: number): number {
  const readyAt = destination.retryReadyAt(now, true);
  return readyAt > now ? readyAt : task.nextAttemptAt;
}

interface Announcement {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly settle: Settle;
  readonly result: SettleResult;
  /** When the attempt ended. */
  readonly endedAt: number;
  /** With the reason `held`: the guard that held it. */
  readonly by?: HoldReason | undefined;
}

/** What core cannot know: that it was the service itself that did not let the attempt leave. */
function named(decision: Decision, errorClass: string | null): Decision {
  if (decision.kind !== "stop") return decision;
  if (errorClass !== "target-denied" && errorClass !== "secret-unavailable") return decision;
  return { ...decision, reason: errorClass };
}

/** Tells scheduler and listeners what has been settled. */
export function announce(
  parts: Pick<RunnerParts, "scheduler" | "events" | "time" | "destinationOf">,
  { task, destination, settle, result, endedAt, by }: Announcement,
): void {
  const { scheduler, events, time } = parts;
  scheduleFollowUp(scheduler, parts.destinationOf, settle.onEnd, result);
  if (result === "PENDING")
    scheduler.expectDueAt(destination.lanes[settle.lane], settle.nextAttemptAt);
  const type = eventType(settle, result);
  if (type === undefined) return;
  const { tenantId, taskId, attemptNumber, policyId, createdAt } = task;
  const now = time.now();
  const event: WritableEvent = {
    type,
    tenantId,
    taskId,
    destination: destination.name,
    attemptNumber,
    policyId,
    createdAt,
  };
  if (settle.attempt !== null) event.attempt = summaryOf(settle.attempt, now - endedAt);
  if (settle.reason !== null) event.reason = settle.reason;
  if (settle.reason === "held" && by !== undefined) event.by = by;
  if (result === "PENDING") event.nextAttemptAt = settle.nextAttemptAt;
  events.emit(now, event);
}

function summaryOf(attempt: AttemptLog, settleMs: number): AttemptSummary {
  const { outcome, responseStatus, errorClass, durationMs, nextDelayMs, delaySource } = attempt;
  return { outcome, responseStatus, errorClass, durationMs, nextDelayMs, delaySource, settleMs };
}

function eventType({ attempt }: Settle, result: SettleResult) {
  switch (result) {
    case "fenced":
      return "attempt.fenced";
    case "SUCCEEDED":
      return "task.succeeded";
    case "EXHAUSTED":
      return "task.exhausted";
    case "CANCELLED":
      return "task.cancelled";
    case "PENDING":
      if (attempt === null) return undefined;
      return attempt.outcome === "abandoned" ? "attempt.abandoned" : "attempt.failed";
  }
}
