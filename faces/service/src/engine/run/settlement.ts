/**
 * Settling: from the end of an attempt to what is written about it. Whether and when there is a
 * next attempt is core's `decide`; here its answer becomes a row.
 */
import {
  type CallHistory,
  type CallRequest,
  classifyOutcome,
  compiledPolicyOf,
  type Decision,
  decide,
  type Gates,
  type HoldReason,
  type Outcome,
  type Policy,
  type Random,
  type StopReason,
} from "@redrive/core";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { Settle, StartedTask } from "../../model/batch.ts";
import { type AttemptLog, laneOf } from "../../model/task.ts";

/** Claims in a row that may die without an outcome; one more is taken for the task's own doing. */
const MAX_ABANDONED = 3;

/** What `decide` and `admit` need to know of a task. */
export function requestOf(
  task: Pick<StartedTask, "method" | "idempotent" | "idempotencyKey" | "deadlineAt">,
): CallRequest {
  return {
    method: task.method,
    idempotent: task.idempotent,
    patience: "wait",
    idempotencyKey: task.idempotencyKey ?? undefined,
    deadlineAt: task.deadlineAt ?? undefined,
  };
}

/** `attempts`: how many have been made. */
export function historyOf(
  task: Pick<StartedTask, "scheduledAt" | "lastDelayMs">,
  attempts: number,
): CallHistory {
  return { attempt: attempts, startedAt: task.scheduledAt, previousDelayMs: task.lastDelayMs };
}

/** For `admit`, about the attempt of a claim. */
export function entryHistoryOf(task: StartedTask, heldBy: HoldReason | undefined): CallHistory {
  return {
    attempt: task.attemptNumber - 1,
    startedAt: task.scheduledAt,
    previousDelayMs: task.lastDelayMs,
    heldBy,
  };
}

/** What there is to decide on. */
export interface Ending {
  readonly task: StartedTask;
  readonly policy: Policy;
  readonly outcome: Outcome;
  readonly gates: Gates;
  readonly now: number;
  readonly random: Random;
  /** This node ended the call itself, as it stops or lost its lease: no fault of the task's. */
  readonly isCutOff?: boolean;
}

/** Claims in a row that died with this one. */
function deathsOf({ task, outcome, isCutOff = false }: Ending): number {
  if (outcome.kind !== "abandoned") return 0;
  return task.abandonedCount + (isCutOff ? 0 : 1);
}

/** Decides on a task whose attempt has ended. */
export function decideEnding(ending: Ending): Decision {
  const { task, policy, outcome, gates, now, random } = ending;
  if (deathsOf(ending) >= MAX_ABANDONED) {
    return { kind: "stop", status: "EXHAUSTED", reason: "poison" };
  }
  const stream = streamOf(random, policy, task);
  const history = historyOf(task, task.attemptNumber);
  const decision = decide(policy, requestOf(task), history, outcome, gates, now, stream);
  const isLost = outcome.kind === "abandoned" && decision.kind === "stop";
  return isLost && decision.reason === "attempts" ? { ...decision, reason: "abandoned" } : decision;
}

/**
 * The task's own stream of chance, as far on as its earlier decisions have brought it: the same
 * draws as a call in process gets that keeps its stream in memory.
 */
function streamOf(random: Random, policy: Policy, task: StartedTask): Random {
  const stream = random.fork(task.taskId);
  if (compiledPolicyOf(policy).draws) for (let n = 1; n < task.attemptNumber; n++) stream.next();
  return stream;
}

export function isThrottled(policy: Policy, outcome: Outcome): boolean {
  return classifyOutcome(policy, outcome) === "throttled";
}

/**
 * The row of an attempt that has ended with this decision. Written out field by field, as it is
 * made for every attempt: spread together from parts it cost a hundred times as much.
 */
export function settleOf(ending: Ending, decision: Decision, attempt: AttemptLog): Settle {
  const { task, now } = ending;
  const abandonedCount = deathsOf(ending);
  const isEnd = decision.kind === "stop";
  return {
    tenantId: task.tenantId,
    taskId: task.taskId,
    ref: task.ref,
    claimEpoch: task.claimEpoch,
    lane: laneOf(task.attemptNumber, abandonedCount),
    abandonedCount,
    status: isEnd ? decision.status : "PENDING",
    reason: isEnd ? decision.reason : null,
    nextAttemptAt: nextAttemptAt(task, decision, now),
    lastDelayMs: isEnd ? task.lastDelayMs : decision.ownDelayMs,
    attempt: isEnd ? attempt : withWait(attempt, decision, now),
  };
}

function nextAttemptAt(task: StartedTask, decision: Decision, now: number): number {
  if (decision.kind === "stop") return task.nextAttemptAt;
  return decision.kind === "retry" ? now + decision.delayMs : decision.until;
}

function withWait(
  attempt: AttemptLog,
  decision: Exclude<Decision, { kind: "stop" }>,
  now: number,
): AttemptLog {
  return decision.kind === "retry"
    ? { ...attempt, nextDelayMs: decision.delayMs, delaySource: decision.source }
    : { ...attempt, nextDelayMs: Math.max(0, decision.until - now), delaySource: decision.by };
}

function claimOf({ tenantId, taskId, ref, claimEpoch }: StartedTask) {
  return { tenantId, taskId, ref, claimEpoch };
}

/** A claim that goes back as if it had not been made. */
export function releaseOf(task: StartedTask, nextAttemptAt: number): Settle {
  return {
    ...claimOf(task),
    status: "PENDING",
    reason: null,
    nextAttemptAt,
    lastDelayMs: task.lastDelayMs,
    lane: laneOf(task.attemptNumber - 1, task.abandonedCount),
    abandonedCount: task.abandonedCount,
    attempt: null,
  };
}

/** A claim of a task whose time is over: it ends without another attempt. `why`: its last error. */
export function expirationOf(task: StartedTask, reason: StopReason, why?: string): Settle {
  const ended = { ...releaseOf(task, task.nextAttemptAt), status: "EXHAUSTED", reason } as const;
  return why === undefined ? ended : { ...ended, lastError: why };
}

export function attemptLogOf(
  task: StartedTask,
  startedAt: number,
  result: AttemptResult,
): AttemptLog {
  return {
    attemptNumber: task.attemptNumber,
    startedAt,
    durationMs: Math.floor(result.durationMs),
    phases: result.phases,
    outcome: result.outcome.kind,
    responseStatus: result.status,
    errorClass: result.errorClass,
    errorMessage: result.errorMessage,
    responseHeaders: result.responseHeaders,
    responseBody: result.responseBody,
    nextDelayMs: null,
    delaySource: null,
  };
}

/** Why nobody saw the end of an attempt. */
const NODE_LOST = "the node that ran the attempt was lost";
export const CUT_OFF =
  "the service ended the attempt before its answer: it was stopping, or had lost its lease";

/** The log of an attempt that nobody saw the end of. It left, if it did, once claimed and due. */
export function abandonedLogOf(task: StartedTask, now: number, why = NODE_LOST): AttemptLog {
  const startedAt = Math.max(task.claimedAt, task.nextAttemptAt);
  return {
    attemptNumber: task.attemptNumber,
    startedAt,
    durationMs: Math.max(0, now - startedAt),
    phases: null,
    outcome: "abandoned",
    responseStatus: null,
    errorClass: null,
    errorMessage: why,
    responseHeaders: null,
    responseBody: null,
    nextDelayMs: null,
    delaySource: null,
  };
}
