/**
 * Runner: runs committed claims when their tasks are due. Immediately before the request is sent it
 * checks again: if the node is stopping or has lost its lease, it releases the claim, and the attempt
 * does not count.
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
  recordedOutcome,
  remainingMs,
} from "@redrive/core";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import { createLightSignal } from "../../deliver/light-signal.ts";
import type { Settle, StartedTask, TaskRef } from "../../model/batch.ts";
import { isDisabled } from "../../model/delivery/delivery-settings.ts";
import { isUnreadable, type PolicyCache } from "../../model/policy-cache.ts";
import type { ClaimRunner } from "../commit/claim-runner.ts";
import type { TaskQueue } from "../commit/commit-queues.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import { guardAt, type Hold } from "../destination/lane-hold.ts";
import { eventLabels, type WritableEventBody } from "../events/engine-event.ts";
import type { NodeState } from "../node/node-state.ts";
import { SendQueue } from "../schedule/send-queue.ts";
import { applySettled, type SettledTaskParts } from "./after-settle.ts";
import type { StartTrace } from "./attempt-trace.ts";
import { waitsOf } from "./attempt-waits.ts";
import type { Deliver } from "./deliver-function.ts";
import { type FollowUp, withFollowUps } from "./follow-up-tasks.ts";
import { type HeldClaim, HeldClaims } from "./held-claims.ts";
import { heldText } from "./hold-message.ts";
import { recordShortage } from "./own-shortage.ts";
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
import { UnreadBodies } from "./unread-body.ts";
import { holdOf } from "./unreadable-policy.ts";

export interface RunnerParts extends SettledTaskParts {
  readonly clock: Clock;
  readonly random: Random;
  /** The state of this node on the shard that holds the task. */
  readonly nodeOf: (taskId: string) => Pick<NodeState, "mayStart" | "ownsClaim">;
  readonly queue: Pick<TaskQueue, "addSettle">;
  readonly policies: PolicyCache;
  readonly deliver: Deliver;
  readonly followUp: FollowUp;
  /** Undefined: attempts are not traced. */
  readonly startTrace: StartTrace | undefined;
  /** Sends nothing to this URL any more. */
  readonly disableTarget: (destination: DestinationRuntime, targetUrl: string) => void;
}

/** The status of a target that does not exist any more. */
const GONE = 410;

/** If the store fails to return a policy, the task waits this long. */
const POLICY_RETRY_MS = 1000;

export class Runner implements ClaimRunner {
  readonly #parts: RunnerParts;
  readonly #held = new HeldClaims();
  readonly #unreadBodies = new UnreadBodies();
  readonly #sendQueue: SendQueue<HeldClaim>;
  #running = 0;
  #underWay = 0;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#sendQueue = new SendQueue(parts.clock, parts.time, (claim) => this.#prepare(claim));
  }

  running(): number {
    return this.#running;
  }

  /** The running attempts, and the claims whose tasks are due soon. */
  underWay(): number {
    return this.#underWay;
  }

  hasSuspect(): boolean {
    return this.#held.hasSuspect();
  }

  /** Does this node run a claim of that task? */
  holds(task: TaskRef): boolean {
    return this.#held.has(task);
  }

  /** The number of claims from the commit of the claim to the commit of its settle. */
  heldCount(): number {
    return this.#held.size;
  }

  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
  ): void {
    const claim = this.#held.add(task, destination, permit, origin, hold);
    this.#underWay++;
    if (origin === undefined) this.#release(claim);
    else if (task.nextAttemptAt > this.#parts.time.now()) this.#sendQueue.add(claim);
    else this.#prepare(claim);
  }

  /** Releases the claim of a canceled task if it waits to be sent. Returns true if it did. */
  recallClaim({ tenantId, taskId }: TaskRef): boolean {
    for (const claim of this.#held.values()) {
      const { task, isWaiting } = claim;
      if (!isWaiting || task.taskId !== taskId || task.tenantId !== tenantId) continue;
      claim.isWaiting = false;
      this.#release(claim);
      return true;
    }
    return false;
  }

  #prepare(claim: HeldClaim): void {
    const policy = this.#parts.policies.get(claim.task);
    if (policy === undefined) this.#loadPolicy(claim);
    else this.#check(claim, policy);
  }

  #loadPolicy(claim: HeldClaim): void {
    this.#parts.policies.load(claim.task).then(
      (loaded) => {
        if (loaded === null) this.#expire(claim, "not-retryable");
        else if (isUnreadable(loaded)) this.#hold(claim, loaded.unreadable);
        else this.#check(claim, loaded);
      },
      () => this.#release(claim, this.#parts.time.now() + POLICY_RETRY_MS),
    );
  }

  /** The task waits without using an attempt. */
  #hold(claim: HeldClaim, reason: string): void {
    this.#returnPermit(claim);
    this.#settle(claim, holdOf(claim.task, reason, this.#parts.time.now()));
  }

  #check(claim: HeldClaim, policy: Policy): void {
    const { task, destination, permit, hold } = claim;
    const now = this.#parts.time.now();
    const history = entryHistoryOf(task, hold?.by);
    // The claim has its permit, so no guard holds it now.
    const decision = admit(policy, requestOf(task), history, OPEN_ENTRY, now);
    const throttled = wasThrottled(policy, task);
    if (!this.#parts.nodeOf(task.taskId).mayStart(task.claimedAt)) this.#release(claim);
    else if (decision.kind === "stop")
      this.#expire(claim, decision.reason, finalHold(claim, policy, now));
    else if (isDisabled(destination.delivery, task.targetUrl)) this.#expire(claim, "target-gone");
    else if (destination.refusesRetries && task.attemptNumber > 1) this.#expire(claim, "overload");
    else if (destination.maySend(permit, now, throttled)) this.#send(claim, policy, now);
    else this.#release(claim, throttled ? affordableAt(claim, now) : undefined);
  }

  #send(claim: HeldClaim, policy: Policy, now: number): void {
    const { task } = claim;
    const history = historyOf(task, task.attemptNumber - 1);
    const leftMs = remainingMs(policy, requestOf(task), history, now);
    const attemptTimeoutMs = Math.max(1, Math.min(policy.attemptTimeoutMs, leftMs));
    const connectTimeoutMs = Math.min(policy.connectTimeoutMs, attemptTimeoutMs);
    this.#running++;
    recordStart(claim, now);
    this.#emitStarted(claim, now);
    const signal = createLightSignal();
    claim.signal = signal;
    const { delivery } = claim.destination;
    const mayStart = () => this.#parts.nodeOf(task.taskId).ownsClaim(task.claimedAt);
    const trace = this.#parts.startTrace?.(task, claim.waits, now);
    claim.trace = trace;
    const traceparent = trace?.traceparent;
    const limits = {
      attemptTimeoutMs,
      connectTimeoutMs,
      now,
      signal,
      delivery,
      mayStart,
      traceparent,
    };
    this.#parts.deliver(task, limits, (result) => this.#end(claim, policy, result));
  }

  #end(claim: HeldClaim, policy: Policy, result: AttemptResult): void {
    const { time } = this.#parts;
    const now = time.now();
    this.#sendQueue.runOnce(now);
    this.#running--;
    claim.signal = undefined;
    claim.trace?.recordResult(result);
    const isUnsent = recordShortage(this.#parts, claim, result, now);
    if (isUnsent) this.#release(claim);
    else if (result.bodyFault !== undefined) this.#endUnread(claim, policy, result, now);
    else this.#endSent(claim, policy, result, now);
  }

  /** The stored body could not be read, which says nothing about the target. */
  #endUnread(claim: HeldClaim, policy: Policy, result: AttemptResult, now: number): void {
    const { task, destination } = claim;
    this.#returnPermit(claim);
    const gates = destination.gates(now, false);
    const ending = { task, policy, gates, now, random: this.#parts.random };
    this.#settle(claim, this.#unreadBodies.settleOf(claim, ending, result));
  }

  #endSent(claim: HeldClaim, policy: Policy, result: AttemptResult, now: number): void {
    const { task, destination, permit } = claim;
    const { random } = this.#parts;
    this.#underWay--;
    this.#returnSlot(claim);
    destination.recordOutcome(permit, now, policy, result.outcome, result.durationMs);
    this.#parts.scheduler.unblock(destination, now);
    if (result.status === GONE && destination.delivery.disableOnGone) {
      this.#parts.disableTarget(destination, task.targetUrl);
    }
    // If this node aborted the call itself, the outcome of the call is unknown.
    const isLost = result.outcome.kind === "aborted";
    const outcome = isLost ? ({ kind: "abandoned" } as const) : result.outcome;
    const gates = destination.gates(now, isThrottled(policy, outcome));
    const ending = { task, policy, outcome, gates, now, random, isCutOff: isLost };
    const log = isLost ? abandonedLogOf(task, now, CUT_OFF) : attemptLogOf(claim, result);
    const decision = decideEnding(ending);
    this.#settle(claim, settleOf(ending, withServiceReason(decision, result.errorClass), log));
  }

  /** Returns the claim as if it had not been made. */
  #release(claim: HeldClaim, nextAttemptAt = claim.task.nextAttemptAt): void {
    this.#returnPermit(claim);
    this.#settle(claim, releaseOf(claim.task, nextAttemptAt));
  }

  /** Ends the task without another attempt. */
  #expire(claim: HeldClaim, reason: NonNullable<Settle["reason"]>, by?: HoldReason): void {
    this.#returnPermit(claim);
    const lastError = reason === "held" && by !== undefined ? heldText(by) : undefined;
    this.#settle(claim, expirationOf(claim.task, reason, lastError), by);
  }

  #returnSlot({ task: { tenantId }, origin }: HeldClaim): void {
    if (origin !== undefined) this.#parts.scheduler.slots.release(tenantId, origin);
  }

  #returnPermit(claim: HeldClaim): void {
    const { destination, permit } = claim;
    const now = this.#parts.time.now();
    this.#underWay--;
    this.#returnSlot(claim);
    destination.returnPermit(permit, now);
    this.#parts.scheduler.unblock(destination, now);
  }

  #settle(claim: HeldClaim, settled: Settle, by?: HoldReason): void {
    const { destination, task } = claim;
    claim.trace?.end(settled);
    const endedAt = this.#parts.time.now();
    const { delivery } = destination;
    const settle = withFollowUps(this.#parts.followUp, task, settled, delivery, endedAt);
    this.#parts.queue.addSettle({
      settle,
      destination,
      done: (result) => {
        this.#held.remove(claim);
        applySettled(this.#parts, { task, destination, settle, result, endedAt, by });
      },
    });
  }

  /**
   * Aborts every running attempt, because the lease is lost or the grace period is over. `isAffected`:
   * only those of one shard, or of a lease that has ended.
   */
  abort(reason: unknown, isAffected: (task: StartedTask) => boolean = () => true): void {
    // A copy: an aborted attempt may be settled at once, which changes the list.
    const affected = this.#held.values().filter(({ task }) => isAffected(task));
    for (const { signal } of affected) signal?.abort(reason);
  }

  #emitStarted({ task, hold, waits }: HeldClaim, now: number): void {
    const { tenantId, taskId, destination, attemptNumber, nextAttemptAt } = task;
    const event: WritableEventBody = {
      type: "attempt.started",
      tenantId,
      taskId,
      destination,
      attemptNumber,
      lagMs: Math.max(0, now - nextAttemptAt),
    };
    const labels = eventLabels(task.labels);
    if (labels !== undefined) event.labels = labels;
    if (hold !== undefined) event.heldBy = hold.by;
    if (waits.length > 0) event.waits = waits;
    this.#parts.events.emit(now, event);
  }
}

function recordStart(claim: HeldClaim, startedAt: number): void {
  const { nextAttemptAt: dueAt, claimedAt } = claim.task;
  claim.startedAt = startedAt;
  claim.waits = waitsOf(claim.hold, { dueAt, claimedAt, startedAt });
}

/** The guard that held a task at the end of its time. */
function finalHold({ task, hold }: HeldClaim, policy: Policy, now: number): HoldReason | undefined {
  if (hold === undefined) return undefined;
  const leftMs = remainingMs(policy, requestOf(task), entryHistoryOf(task, hold.by), now);
  return guardAt(hold, now + leftMs);
}

/** Was the previous attempt throttled? */
function wasThrottled(policy: Policy, { lastStatus }: StartedTask): boolean {
  return lastStatus !== null && isThrottled(policy, recordedOutcome(lastStatus));
}

/**
 * When the retry budget can pay the price of a retry after a throttling response. Claims are made at
 * the usual price, so without this wait the task would be claimed and released again at once.
 */
function affordableAt({ task, destination }: HeldClaim, now: number): number {
  const readyAt = destination.retryReadyAt(now, true);
  return readyAt > now ? readyAt : task.nextAttemptAt;
}

/** Core cannot know that the service itself refused to send the attempt. */
function withServiceReason(decision: Decision, errorClass: string | null): Decision {
  if (decision.kind !== "stop") return decision;
  if (errorClass !== "target-denied" && errorClass !== "secret-unavailable") return decision;
  return { ...decision, reason: errorClass };
}
