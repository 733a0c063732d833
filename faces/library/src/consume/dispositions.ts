/**
 * Dispositions: turns core's decisions into dispositions, and reports each of them. It carries decisions
 * out and makes none about retrying.
 */
import {
  admit,
  type CallHistory,
  type CallRequest,
  type Clock,
  decideUnguarded,
  OPEN_ENTRY,
  type Policy,
  type Random,
  type StopReason,
} from "@redrive/core";
import type { ConsumeEventDetails } from "./consume-event.ts";
import type { DeadLetter, Defer, DeferReason, Disposition, Message } from "./message.ts";
import type { FailedAttempt } from "./message-attempt.ts";
import {
  type DeliveryRecord,
  describeInOneLine,
  type MessageState,
  withRecord,
} from "./message-state.ts";

export interface DispositionParts {
  readonly policy: Policy;
  readonly clock: Clock;
  readonly random: Random;
  readonly minDelayMs: number;
  readonly deferMs: number;
  readonly maxLost: number;
  readonly idempotent: boolean;
  readonly describeError: (error: unknown) => string;
  readonly emit: (details: ConsumeEventDetails) => void;
}

export class Dispositions {
  readonly #parts: DispositionParts;

  constructor(parts: DispositionParts) {
    this.#parts = parts;
  }

  /** A message without an attempt or time left becomes a dead letter. Undefined: it may start. */
  beforeAttempt(message: Message, state: MessageState, now: number): DeadLetter | undefined {
    const { policy } = this.#parts;
    const request = this.#requestOf(message);
    const decision = admit(policy, request, historyOf(state), OPEN_ENTRY, now);
    return decision.kind === "stop" ? this.deadLetter(message, state, decision.reason) : undefined;
  }

  /**
   * Deliveries were lost; they count as attempts. Undefined: the next attempt may start, because the
   * broker has waited.
   */
  afterLoss(message: Message, state: MessageState): Disposition | undefined {
    const { policy, clock, random, maxLost, minDelayMs, emit } = this.#parts;
    const { id, isImmediate = false } = message;
    const { lost, attempts } = state;
    const stream = random.fork(`${id}/${attempts}`);
    const outcome = { kind: "abandoned" } as const;
    const request = this.#requestOf(message);
    const now = clock.now();
    const next = decideUnguarded(policy, request, historyOf(state), outcome, now, stream);
    const delayMs = next.kind === "retry" && isImmediate ? Math.max(minDelayMs, next.delayMs) : 0;
    emit({ type: "lost", id, lost, delayMs });
    if (lost >= maxLost) return this.deadLetter(message, state, "poison");
    if (next.kind === "stop") return this.deadLetter(message, state, lossReason(next.reason));
    if (!isImmediate) return undefined;
    return { kind: "retry", delayMs, state: { ...state, previousDelayMs: next.ownDelayMs } };
  }

  afterFailure(
    message: Message,
    state: MessageState,
    failure: FailedAttempt,
    durationMs: number,
  ): Disposition {
    switch (failure.end) {
      case "aborted":
        return this.defer(message, state, "stop");
      case "held":
        return this.defer(message, state, "guard");
      case "refused":
        return this.deadLetter(message, state, failure.reason);
      default:
        return this.#afterAttempt(message, state, failure, durationMs);
    }
  }

  #afterAttempt(
    message: Message,
    state: MessageState,
    failure: FailedAttempt,
    durationMs: number,
  ): Disposition {
    const { clock, minDelayMs, emit } = this.#parts;
    const { next, error, reason, verdict } = failure;
    const now = clock.now();
    const delayMs = next && Math.max(minDelayMs, next.delayMs);
    const record = this.#recordOf(state, failure, now - durationMs, durationMs, delayMs);
    const after: MessageState = {
      ...state,
      attempts: state.attempts + 1,
      lost: 0,
      isThrottled: verdict === "throttled",
      previousDelayMs: next?.ownDelayMs ?? state.previousDelayMs,
      history: withRecord(state.history, record),
    };
    if (delayMs === undefined) return this.deadLetter(message, after, reason, error);
    emit({ type: "retry", id: message.id, attempt: after.attempts, verdict, error, delayMs });
    return { kind: "retry", delayMs, state: after };
  }

  #recordOf(
    { attempts }: MessageState,
    { error, verdict }: FailedAttempt,
    at: number,
    durationMs: number,
    delayMs: number | undefined,
  ): DeliveryRecord {
    const text = describeInOneLine(this.#parts.describeError, error);
    const wait = delayMs === undefined ? {} : { delayMs };
    return { attempt: attempts + 1, at, durationMs, verdict, error: text, ...wait };
  }

  deadLetter(
    { id }: Message,
    state: MessageState,
    reason: StopReason,
    error?: unknown,
  ): DeadLetter {
    const { attempts } = state;
    this.#parts.emit({ type: "dead-letter", id, attempts, reason, error });
    return { kind: "dead-letter", reason, state, error };
  }

  /** The waits of deferred messages are spread, because a guard often holds many at once. */
  defer(
    { id }: Message,
    state: MessageState,
    by: DeferReason,
    atLeastMs: number = this.#parts.deferMs / 2,
  ): Defer {
    const { minDelayMs, deferMs, random, emit } = this.#parts;
    const spreadMs = Math.floor(random.next() * deferMs);
    const delayMs = Math.max(minDelayMs, Math.ceil(atLeastMs) + spreadMs);
    emit({ type: "defer", id, by, delayMs });
    return { kind: "defer", delayMs, by, state };
  }

  #requestOf({ id, deadlineAt }: Message): CallRequest {
    const { idempotent } = this.#parts;
    return { idempotent, idempotencyKey: id, patience: "wait", deadlineAt };
  }
}

function historyOf({ attempts, startedAt, previousDelayMs }: MessageState): CallHistory {
  return { attempt: attempts, startedAt, previousDelayMs };
}

/** The service uses the same reason for a lost last attempt. */
function lossReason(reason: StopReason): StopReason {
  return reason === "attempts" ? "abandoned" : reason;
}
