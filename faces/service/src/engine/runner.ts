/**
 * Runner: runs committed claims when their tasks are due. Immediately before the request is sent it
 * checks again: if the node is stopping or has lost its lease, it releases the claim, and the attempt
 * does not count.
 */
import {
  type AbortSignalLike,
  admit,
  type Cancel,
  type Clock,
  classifyOutcome,
  type Decision,
  type HoldReason,
  holdDescriptions,
  OPEN_ENTRY,
  OPEN_GATES,
  type Outcome,
  type Permit,
  type Policy,
  type Random,
  recordedOutcome,
  remainingMs,
  timeoutOutcome,
} from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import { createHeap } from "../collections/heap.ts";
import { type AttemptResult, createLightSignal, type LightSignal } from "../deliver/attempt.ts";
import type { Settle, StartedTask, TaskRef } from "../model/batch.ts";
import { type DeliverySettings, isDisabled } from "../model/delivery/delivery-settings.ts";
import { isUnreadable, type PolicyCache, type PolicyRef } from "../model/policy-cache.ts";
import {
  type AttemptWait,
  laneOf,
  MIN_WAIT_MS,
  NO_WAITS,
  SUSPECT_ABANDONED,
  type WaitCause,
} from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { ClaimRunner, CommitQueue } from "./commit.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import { type EngineEvents, eventLabels, type WritableEventBody } from "./events.ts";
import { type Hold, longestHold } from "./lanes.ts";
import type { NodeState } from "./node.ts";
import type { Scheduler } from "./scheduler.ts";
import {
  abandonedLogOf,
  applySettled,
  attemptLogOf,
  CUT_OFF,
  decideEnding,
  type Ending,
  entryHistoryOf,
  expirationOf,
  type FollowUp,
  historyOf,
  isThrottled,
  releaseOf,
  requestOf,
  type SettledTaskParts,
  settleOf,
  withFollowUps,
} from "./settlement.ts";

export interface RunnerParts extends SettledTaskParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly node: Pick<NodeState, "mayStart" | "ownsClaim">;
  readonly queue: Pick<CommitQueue, "addSettle">;
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
  readonly #unreadSecrets = new UnreadSecrets();
  readonly #sendQueue: SendQueue<HeldClaim>;
  readonly #tokenQueue: TokenQueue<HeldClaim>;
  #running = 0;
  #underWay = 0;
  #givenUp = 0;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    const { clock, time } = parts;
    const send = (claim: HeldClaim, now: number) => this.#prepare(claim, now);
    this.#sendQueue = new SendQueue(clock, time, send);
    this.#tokenQueue = new TokenQueue(clock, time, send);
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

  giveUp(): void {
    this.#givenUp++;
  }

  /** Every attempt has ended, and its end is stored as far as the store accepts it. */
  isDone(): boolean {
    return this.#held.size === this.#givenUp;
  }

  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
    now: number,
  ): void {
    const claim = this.#held.add(task, destination, permit, origin, hold);
    this.#underWay++;
    if (origin === undefined) this.#release(claim, now);
    else if (task.nextAttemptAt > now) this.#sendQueue.add(claim);
    else if (this.#tokenQueue.isWaiting(destination)) this.#waitForToken(claim);
    else this.#prepare(claim, now);
  }

  /** Since its claim, the rate holds the task. */
  #waitForToken(claim: HeldClaim): void {
    const { hold, task } = claim;
    if (hold?.by !== "rate") claim.hold = { by: "rate", since: task.claimedAt, before: hold };
    this.#tokenQueue.add(claim);
  }

  /** Releases the claim of a canceled task if it waits to be sent. Returns true if it did. */
  recallClaim({ tenantId, taskId }: TaskRef): boolean {
    for (const claim of this.#held.values()) {
      const { task, isWaiting } = claim;
      if (!isWaiting || task.taskId !== taskId || task.tenantId !== tenantId) continue;
      claim.isWaiting = false;
      this.#release(claim, this.#parts.time.now());
      return true;
    }
    return false;
  }

  #prepare(claim: HeldClaim, now: number): void {
    const policy = this.#parts.policies.get(claim.task);
    if (policy === undefined) this.#loadPolicy(claim);
    else this.#check(claim, policy, now);
  }

  #loadPolicy(claim: HeldClaim): void {
    const { policies, time } = this.#parts;
    policies.load(claim.task).then(
      (loaded) => {
        const now = time.now();
        if (loaded === null) this.#expire(claim, now, "not-retryable");
        else if (isUnreadable(loaded)) this.#hold(claim, now, loaded.unreadable);
        else this.#check(claim, loaded, now);
      },
      () => this.#release(claim, time.now(), time.now() + POLICY_RETRY_MS),
    );
  }

  /** The task waits without using an attempt. */
  #hold(claim: HeldClaim, now: number, reason: string): void {
    this.#returnPermit(claim, now);
    this.#settle(claim, holdOf(claim.task, reason, now), now);
  }

  #check(claim: HeldClaim, policy: Policy, now: number): void {
    const { task, destination, permit, hold } = claim;
    const history = entryHistoryOf(task, hold?.by);
    // Only a task that was held may have too little time left.
    const usualCallMs = hold && destination.usualCallMs(now);
    // The claim has its permit, so no guard holds it now.
    const decision = admit(policy, requestOf(task), history, OPEN_ENTRY, now, usualCallMs);
    const throttled = wasThrottled(policy, task);
    if (!this.#parts.node.mayStart(task.claimedAt)) this.#release(claim, now);
    else if (decision.kind === "stop" && this.#unreadSecrets.has(task))
      this.#expire(claim, now, SECRET_UNAVAILABLE);
    else if (decision.kind === "stop")
      this.#expire(claim, now, decision.reason, finalHold(claim, policy, now));
    else if (isDisabled(destination.delivery, task.targetUrl))
      this.#expire(claim, now, "target-gone");
    else if (destination.refusesRetries && task.attemptNumber > 1)
      this.#expire(claim, now, "overload");
    else if (this.#tokenQueue.mayWait(claim, now)) this.#waitForToken(claim);
    else if (destination.maySend(permit, now, throttled)) this.#send(claim, policy, now);
    else this.#release(claim, now, throttled ? affordableAt(claim, now) : undefined);
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
    const mayStart = () => this.#parts.node.ownsClaim(task.claimedAt);
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
    this.#parts.deliver(task, limits, (result) =>
      this.#end(claim, policy, result, attemptTimeoutMs),
    );
  }

  #end(claim: HeldClaim, policy: Policy, result: AttemptResult, timeoutMs: number): void {
    const { time } = this.#parts;
    const now = time.now();
    this.#sendQueue.runOnce(now);
    this.#running--;
    claim.signal = undefined;
    claim.trace?.recordResult(result);
    const isUnsent = recordShortage(this.#parts, claim, result, now);
    if (isUnsent) this.#release(claim, now);
    else if (result.bodyFault !== undefined) this.#endUnread(claim, policy, result, now);
    else if (result.errorClass === SECRET_UNAVAILABLE) this.#endUnopened(claim, result, now);
    else this.#endSent(claim, policy, withCutShort(result, policy, timeoutMs), now);
  }

  /** The stored body could not be read, which says nothing about the target. */
  #endUnread(claim: HeldClaim, policy: Policy, result: AttemptResult, now: number): void {
    const { task, destination } = claim;
    this.#returnPermit(claim, now);
    const gates = destination.gates(now, false);
    const ending = { task, policy, gates, now, random: this.#parts.random };
    this.#settle(claim, this.#unreadBodies.settleOf(claim, ending, result), now);
  }

  /** This node lacks the key of a secret. Nothing was sent, and the task waits. */
  #endUnopened(claim: HeldClaim, result: AttemptResult, now: number): void {
    const { tenantId, taskId, destination } = claim.task;
    const reason = result.errorMessage ?? SECRET_UNAVAILABLE;
    this.#parts.events.emit(now, {
      type: "secret.unavailable",
      tenantId,
      taskId,
      destination,
      reason,
    });
    this.#returnPermit(claim, now);
    this.#settle(claim, this.#unreadSecrets.settleOf(claim, result, now), now);
  }

  #endSent(claim: HeldClaim, policy: Policy, result: AttemptResult, now: number): void {
    const { task, destination, permit } = claim;
    const { random } = this.#parts;
    this.#underWay--;
    this.#returnSlot(claim);
    const verdict = classifyOutcome(policy, result.outcome);
    destination.recordOutcome(permit, now, policy, result.outcome, verdict, result.durationMs);
    this.#parts.scheduler.unblock(destination, now);
    if (result.status === GONE && destination.delivery.disableOnGone) {
      this.#parts.disableTarget(destination, task.targetUrl);
    }
    // If this node aborted the call itself, the outcome of the call is unknown.
    const isLost = result.outcome.kind === "aborted";
    const outcome = isLost ? ({ kind: "abandoned" } as const) : result.outcome;
    // What follows a success depends on no guard.
    const gates =
      verdict === "success" ? OPEN_GATES : destination.gates(now, verdict === "throttled");
    const ending = { task, policy, outcome, gates, now, random, isCutOff: isLost };
    const log = isLost ? abandonedLogOf(task, now, CUT_OFF) : attemptLogOf(claim, result);
    const decision = decideEnding(ending);
    const settled = settleOf(ending, withServiceReason(decision, result.errorClass), log);
    this.#settle(claim, settled, now);
  }

  /** Returns the claim as if it had not been made. */
  #release(claim: HeldClaim, now: number, nextAttemptAt = claim.task.nextAttemptAt): void {
    this.#returnPermit(claim, now);
    this.#settle(claim, releaseOf(claim.task, nextAttemptAt), now);
  }

  /** Ends the task without another attempt. */
  #expire(
    claim: HeldClaim,
    now: number,
    reason: NonNullable<Settle["reason"]>,
    by?: HoldReason,
  ): void {
    this.#returnPermit(claim, now);
    const lastError = reason === "held" && by !== undefined ? heldText(by) : undefined;
    this.#settle(claim, expirationOf(claim.task, reason, lastError), now, by);
  }

  #returnSlot({ task: { tenantId }, origin }: HeldClaim): void {
    if (origin !== undefined) this.#parts.scheduler.slots.release(tenantId, origin);
  }

  #returnPermit(claim: HeldClaim, now: number): void {
    const { destination, permit } = claim;
    this.#underWay--;
    this.#returnSlot(claim);
    destination.returnPermit(permit, now);
    this.#parts.scheduler.unblock(destination, now);
  }

  #settle(claim: HeldClaim, settled: Settle, endedAt: number, by?: HoldReason): void {
    const { destination, task } = claim;
    claim.trace?.end(settled);
    const { delivery } = destination;
    const settle = withFollowUps(this.#parts.followUp, task, settled, delivery, endedAt);
    this.#parts.queue.addSettle({
      settle,
      destination,
      done: (result, now) => {
        this.#held.remove(claim);
        applySettled(this.#parts, { task, destination, settle, result, endedAt, now, by });
      },
    });
  }

  /**
   * Aborts every running attempt, because the lease is lost or the grace period is over. `isAffected`:
   * only those of a lease that has ended.
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
  const { nextAttemptAt: dueAt } = claim.task;
  // If it waited for a token, it had its permit only now.
  const claimedAt = claim.waitsUntil > 0 ? startedAt : claim.task.claimedAt;
  claim.startedAt = startedAt;
  claim.waits = waitsOf(claim.hold, { dueAt, claimedAt, startedAt });
}

/** The guard that held a task for most of its time since it was due. */
function finalHold({ task, hold }: HeldClaim, policy: Policy, now: number): HoldReason | undefined {
  if (hold === undefined) return undefined;
  const leftMs = remainingMs(policy, requestOf(task), entryHistoryOf(task, hold.by), now);
  return longestHold(hold, task.nextAttemptAt, now + leftMs);
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

/** The guards ignore a timeout of an attempt for which the task had too little time left. */
function withCutShort(result: AttemptResult, policy: Policy, timeoutMs: number): AttemptResult {
  const { outcome, durationMs } = result;
  const isTimeout = outcome.kind === "error" && outcome.errorClass === "timeout";
  if (!isTimeout || durationMs < timeoutMs) return result;
  return { ...result, outcome: timeoutOutcome(policy, timeoutMs, outcome.sent) };
}

/** Core cannot know that the service itself refused to send the attempt. */
function withServiceReason(decision: Decision, errorClass: string | null): Decision {
  if (decision.kind !== "stop") return decision;
  return errorClass === "target-denied" ? { ...decision, reason: errorClass } : decision;
}

// Attempt waits: how long an attempt waited after it was due, and for which guards.

/** When an attempt was due, when it had its permit, and when it was sent. */
interface AttemptTimes {
  readonly dueAt: number;
  readonly claimedAt: number;
  readonly startedAt: number;
}

/**
 * The waits of an attempt after it was due, oldest first. `hold`: the guards that held it. What no
 * guard explains is `late`.
 */
export function waitsOf(hold: Hold | undefined, times: AttemptTimes): readonly AttemptWait[] {
  const { dueAt, claimedAt, startedAt } = times;
  if (startedAt - dueAt < MIN_WAIT_MS) return NO_WAITS;
  const waits: AttemptWait[] = [];
  let endAt = startedAt;
  // From the latest to the earliest. Two neighbors with one cause are one wait.
  const add = (cause: WaitCause, from: number) => {
    const sinceAt = Math.max(dueAt, Math.min(from, endAt));
    if (sinceAt === endAt) return;
    const next = waits.at(-1)?.cause === cause ? waits.pop() : undefined;
    waits.push({ cause, sinceAt, durationMs: endAt - sinceAt + (next?.durationMs ?? 0) });
    endAt = sinceAt;
  };
  add("late", claimedAt);
  for (let one = hold; one !== undefined; one = one.before) add(one.by, one.since);
  add("late", dueAt);
  return waits.filter(({ durationMs }) => durationMs >= MIN_WAIT_MS).reverse();
}

// Deliver function: the function through which the engine sends an attempt. In production `deliver/`
// implements it; the simulation replaces it with a simulated network.

export interface DeliveryLimits {
  /** From start to end. The deliverer enforces it, whatever the target does. */
  readonly attemptTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** Engine time at the start. */
  readonly now: number;
  /** Aborts the request. */
  readonly signal: AbortSignalLike;
  /** The settings of the destination. */
  readonly delivery: DeliverySettings;
  /**
   * False: the request must not be sent any more. A process that was suspended may continue with its
   * first byte before a timer can abort it.
   */
  readonly mayStart: () => boolean;
  /** The trace context to send; undefined: the deliverer makes one. */
  readonly traceparent: string | undefined;
}

/** Calls `done` exactly once, and never before it returns. */
export type Deliver = (
  task: StartedTask,
  limits: DeliveryLimits,
  done: (result: AttemptResult) => void,
) => void;

// Own shortage: an attempt for which this node lacked files, memory or ports. It is no outcome of the
// target: the claim is returned, the attempt does not count, and no guard learns of it. The node then
// starts nothing for a moment, and runs fewer attempts at once until attempts go well again.

/**
 * An address that this machine can never reach has the same error code as a lack of ports. After this
 * many holds without any success, about half a minute, the error counts as an outcome of the target.
 */
const MAX_ORIGIN_HOLDS = 10;

/** Records whether the attempt lacked something. True if it counts as not sent. */
function recordShortage(
  {
    scheduler: { slots },
    events,
  }: { readonly scheduler: Scheduler; readonly events: EngineEvents },
  { origin = "" }: HeldClaim,
  { shortage, errorMessage, outcome }: AttemptResult,
  now: number,
): boolean {
  if (shortage === null) {
    if (outcome.kind !== "aborted") slots.recordNoShortage(origin);
    return false;
  }
  if (shortage === "origin" && slots.shortagesOf(origin) >= MAX_ORIGIN_HOLDS) return false;
  const isNew = slots.recordShortage(shortage, origin, now);
  if (isNew) events.emit(now, { type: "node.shortage", reason: errorMessage ?? shortage });
  return true;
}

// Unread body: an attempt whose stored body or secrets this node could not read. It is no outcome of the
// target, so no guard learns of it. If the blob store does not respond, the task waits without using an
// attempt, for a limited number of times. A body that is gone or wrong stays so: the task becomes a dead
// letter. If an encryption key is missing, the task waits until its time is over: while keys are changed,
// another node may have it, or this one after its restart.

/** How often a task waits for the blob store: about a quarter of an hour in all. */
const MAX_WAITS = 10;
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 300_000;

/** Beyond this number of tasks, the waits are counted again. */
const MAX_TASKS = 10_000;

const REASON = "body-unavailable";

/** Our side broke the request off, so the target did nothing with it. */
const CUT_SHORT: Outcome = { kind: "error", errorClass: "reset", sent: false };

type EndedClaim = Pick<HeldClaim, "task" | "startedAt" | "waits">;

export class UnreadBodies {
  /** The waits of each task on this node. */
  readonly #waits = new BoundedCache<number>(MAX_TASKS);

  /** The settle of such an attempt. */
  settleOf(claim: EndedClaim, ending: Omit<Ending, "outcome">, result: AttemptResult): Settle {
    const { task, now } = ending;
    const { bodyFault, errorMessage } = result;
    const lastError = errorMessage ?? REASON;
    const isLost = bodyFault?.kind === "missing" || bodyFault?.kind === "corrupt";
    // A request that was sent in part is an attempt. The target has seen that it is not complete.
    if (bodyFault?.isSent === true) {
      const log = attemptLogOf(claim, result);
      if (isLost) return { ...expirationOf(task, REASON), attempt: log };
      const cutShort: Ending = { ...ending, outcome: CUT_SHORT };
      return settleOf(cutShort, decideEnding(cutShort), log);
    }
    const name = `${task.tenantId}\n${task.taskId}`;
    const waits = this.#waits.get(name) ?? 0;
    if (isLost || waits >= MAX_WAITS) {
      this.#waits.delete(name);
      return expirationOf(task, REASON, lastError);
    }
    this.#waits.set(name, waits + 1);
    const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** waits);
    return { ...releaseOf(task, now + waitMs), lastError };
  }
}

/** A task is sent this soon after its node has got the key, or another node its partition. */
const MAX_SECRET_WAIT_MS = 60_000;

export class UnreadSecrets {
  /** The waits of each task on this node. */
  readonly #waits = new BoundedCache<number>(MAX_TASKS);

  /** Did this node lack a key for the task when it was due last? */
  has({ tenantId, taskId }: TaskRef): boolean {
    return this.#waits.get(`${tenantId}\n${taskId}`) !== undefined;
  }

  /** The settle of such an attempt: it gives the task back. */
  settleOf({ task }: EndedClaim, { errorMessage }: AttemptResult, now: number): Settle {
    const name = `${task.tenantId}\n${task.taskId}`;
    const waits = this.#waits.get(name) ?? 0;
    this.#waits.set(name, waits + 1);
    const waitMs = Math.min(MAX_SECRET_WAIT_MS, FIRST_WAIT_MS * 2 ** waits);
    return { ...releaseOf(task, now + waitMs), lastError: errorMessage ?? SECRET_UNAVAILABLE };
  }
}

const SECRET_UNAVAILABLE = "secret-unavailable";

// Unreadable policy: holds the tasks whose policy this version of Redrive cannot read. They wait
// without using an attempt. They are checked again every ten minutes, and at once when the policy is
// replaced.

const CHECK_INTERVAL_MS = 600_000;

const PREFIX = "held: version ";

/** The last error of a held task. */
function heldByPolicyText({ policyId, policyVersion }: PolicyRef, reason: string): string {
  return `${PREFIX}${policyVersion} of policy ${JSON.stringify(policyId)} cannot be read: ${reason}`;
}

/** Does the task wait because its policy could not be read? */
export function isHeldByPolicy({ lastError }: { readonly lastError: string | null }): boolean {
  return lastError?.startsWith(PREFIX) ?? false;
}

/** The settle that returns a claim. No request was sent. */
function holdOf(task: StartedTask, reason: string, now: number): Settle {
  const lastError = heldByPolicyText(task, reason);
  return { ...releaseOf(task, now + CHECK_INTERVAL_MS), lastError };
}

/**
 * The settle of a claim whose node is gone. A request may have been sent, so the attempt counts. What
 * follows is decided once the policy can be read.
 */
export function abandonedHoldOf(task: StartedTask, reason: string, now: number): Settle {
  const abandonedCount = task.abandonedCount + 1;
  return {
    ...releaseOf(task, now + CHECK_INTERVAL_MS),
    lane: laneOf(task.attemptNumber, abandonedCount),
    abandonedCount,
    attempt: abandonedLogOf(task, now, heldByPolicyText(task, reason)),
  };
}

// Hold message: the last error of a task that a guard held until its time ran out.

/** A clause: "held by the open circuit until its time was over". */
function heldText(by: HoldReason): string {
  return `held by ${holdDescriptions[by]} until its time was over`;
}

// Held claims: the claims of this node from the commit of the claim to the commit of its settle.
// The rescuer of this node must not touch them.

export interface HeldClaim {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly permit: Permit;
  /** The origin of its slot; undefined: it has no slot. */
  readonly origin: string | undefined;
  /** The guard or limit that held the task after it was due; undefined: none did. */
  hold: Hold | undefined;
  readonly isSuspect: boolean;
  /** It is in the send queue or the token queue. */
  isWaiting: boolean;
  /** Until when it waits for a token of a rate; 0: it has not waited for one. */
  waitsUntil: number;
  /** When the request was sent; 0 before. */
  startedAt: number;
  /** How long it waited after it was due; known once the request is sent. */
  waits: readonly AttemptWait[];
  /** Aborts the attempt; undefined while no request is under way. */
  signal: LightSignal | undefined;
  /** Undefined: no attempt is under way, or none is traced. */
  trace: AttemptTrace | undefined;
  /** Its index in the list. */
  slot: number;
}

/**
 * A list and not a map: a map that is filled and emptied all the time is copied again and again, and
 * its old copies prevent the collector from freeing ended claims early.
 */
export class HeldClaims {
  readonly #claims: HeldClaim[] = [];
  #suspects = 0;

  get size(): number {
    return this.#claims.length;
  }

  hasSuspect(): boolean {
    return this.#suspects > 0;
  }

  has({ tenantId, taskId }: TaskRef): boolean {
    return this.#claims.some(({ task }) => task.taskId === taskId && task.tenantId === tenantId);
  }

  values(): readonly HeldClaim[] {
    return this.#claims;
  }

  add(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
  ): HeldClaim {
    const claim: HeldClaim = {
      task,
      destination,
      permit,
      origin,
      hold,
      isSuspect: task.abandonedCount >= SUSPECT_ABANDONED,
      isWaiting: false,
      waitsUntil: 0,
      startedAt: 0,
      waits: NO_WAITS,
      signal: undefined,
      trace: undefined,
      slot: this.#claims.length,
    };
    this.#claims.push(claim);
    destination.users++;
    if (claim.isSuspect) this.#suspects++;
    return claim;
  }

  /** Moves the last claim to the free slot. */
  remove(claim: HeldClaim): void {
    const last = this.#claims.pop() as HeldClaim;
    if (last !== claim) this.#claims[claim.slot] = last;
    last.slot = claim.slot;
    claim.destination.users--;
    if (claim.isSuspect) this.#suspects--;
  }
}

// Attempt trace: how the engine reports one attempt to a tracer. Without a tracer, nothing of this runs.
// `telemetry/` implements it.

export interface AttemptTrace {
  /** Sent to the target, so that its spans continue the trace. */
  readonly traceparent: string;
  /** The attempt has ended. */
  recordResult(result: AttemptResult): void;
  /** It is decided what follows. Called once, last. */
  end(settle: Settle): void;
}

/** Called immediately before an attempt starts. `waits`: since the attempt was due. `now`: epoch ms. */
export type StartTrace = (
  task: StartedTask,
  waits: readonly AttemptWait[],
  now: number,
) => AttemptTrace;

// Send queue: claims that were committed a little ahead of time, until their tasks are due. It uses
// one alarm, for the earliest claim.

/** A claim that can wait in the queue. */
interface QueuedClaim {
  readonly task: StartedTask;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
}

export class SendQueue<Claim extends QueuedClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim, now: number) => void;
  /** Recalled claims stay in the heap until they reach the top. */
  readonly #heap = createHeap<Claim>(({ task: a }, { task: b }) =>
    a.nextAttemptAt === b.nextAttemptAt ? a.ref < b.ref : a.nextAttemptAt < b.nextAttemptAt,
  );
  #cancelAlarm: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  /** `send` is called when the task is due. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim, now: number) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
  }

  add(claim: Claim): void {
    claim.isWaiting = true;
    this.#heap.push(claim);
    this.#arm();
  }

  #arm(): void {
    const at = this.#heap.peek()?.task.nextAttemptAt ?? Number.POSITIVE_INFINITY;
    if (at >= this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = at;
    this.#cancelAlarm = this.#clock.alarm(this.#time.msUntil(at), this.#ring);
  }

  /** Alarms have a resolution of one millisecond. A caller that runs anyway may check earlier. */
  runOnce(now: number): void {
    if (this.#alarmAt > now) return;
    this.#cancelAlarm?.();
    this.#ring();
  }

  readonly #ring = (): void => {
    this.#alarmAt = Number.POSITIVE_INFINITY;
    const now = this.#time.now();
    for (let claim = this.#popDue(now); claim !== undefined; claim = this.#popDue(now)) {
      if (!claim.isWaiting) continue;
      claim.isWaiting = false;
      this.#send(claim, now);
    }
    this.#arm();
  };

  #popDue(now: number): Claim | undefined {
    const first = this.#heap.peek();
    return first !== undefined && first.task.nextAttemptAt <= now ? this.#heap.pop() : undefined;
  }
}

// Token queue: committed claims that wait for a token of their destination's rate, in the order of their
// claims. Each destination has one alarm, for its next token.

/** A destination whose calls may have to wait for a token. */
interface TokenSource {
  /** When the next call may be sent; `now`: at once. */
  startsAt(now: number): number;
}

interface TokenClaim {
  readonly destination: TokenSource;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
  /** Until when it waits for a token; 0: it has not waited yet. */
  waitsUntil: number;
}

/**
 * A claim takes tokens of the next 50 ms, so this is rarely reached. A claim that waits longer, because
 * the document has changed or the node was late, is returned.
 */
const MAX_TOKEN_WAIT_MS = 200;

interface Waiting<Claim> {
  /** The claims before `first` have been sent. */
  readonly claims: Claim[];
  first: number;
}

export class TokenQueue<Claim extends TokenClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim, now: number) => void;
  readonly #waiting = new Map<TokenSource, Waiting<Claim>>();

  /** `send` is called when there is a token, or when there will be none in time. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim, now: number) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
  }

  /** Others of the destination wait, so a new claim must wait behind them. */
  isWaiting(destination: TokenSource): boolean {
    return this.#waiting.has(destination);
  }

  /** There is no token now, but there will be one in time. */
  mayWait(claim: Claim, now: number): boolean {
    const startsAt = claim.destination.startsAt(now);
    return startsAt > now && startsAt <= (claim.waitsUntil || now + MAX_TOKEN_WAIT_MS);
  }

  add(claim: Claim): void {
    const { destination } = claim;
    claim.isWaiting = true;
    claim.waitsUntil ||= this.#time.now() + MAX_TOKEN_WAIT_MS;
    const waiting = this.#waiting.get(destination);
    if (waiting !== undefined) {
      waiting.claims.push(claim);
      return;
    }
    const added = { claims: [claim], first: 0 };
    this.#waiting.set(destination, added);
    this.#arm(destination, added);
  }

  #arm(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const waitsUntil = waiting.claims[waiting.first]?.waitsUntil ?? now;
    const at = Math.min(destination.startsAt(now), waitsUntil);
    this.#clock.alarm(this.#time.msUntil(at), () => this.#ring(destination, waiting));
  }

  #ring(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const { claims } = waiting;
    for (let claim = claims[waiting.first]; claim !== undefined; claim = claims[++waiting.first]) {
      if (!claim.isWaiting) continue;
      if (this.mayWait(claim, now)) {
        claims.splice(0, waiting.first);
        waiting.first = 0;
        this.#arm(destination, waiting);
        return;
      }
      claim.isWaiting = false;
      this.#send(claim, now);
    }
    this.#waiting.delete(destination);
  }
}
