/**
 * Session call: an attempt over a connection that it shares with others, from the wait for a connection
 * to its result. It ends once: by what the target sends, by an error, by its deadline or by the caller's
 * abort. Subclasses know the protocol.
 */
import type { Cancel, Clock, Outcome } from "@redrive/core";
import type { DeadlineTimer, TimerEntry } from "../../time/deadline-timer.ts";
import type { SessionAttemptCall } from "../attempt.ts";
import {
  type AttemptProgress,
  failureOutcome,
  type ResultNote,
  resultOf,
} from "../attempt-result.ts";
import { type Failure, timeoutFailure } from "../failure.ts";
import { onAbort } from "../light-signal.ts";
import type { SecretRequest } from "../redact.ts";
import type { BodyCapture, ResponseHead } from "../response.ts";
import type { Session, SessionUser } from "./session.ts";

export abstract class SessionCall<Kept extends Session>
  implements TimerEntry, SessionUser<Kept>, AttemptProgress
{
  protected readonly clock: Clock;
  protected readonly call: SessionAttemptCall;
  protected readonly startMs: number;
  readonly #deadlines: DeadlineTimer;
  readonly #stopListening: Cancel | undefined;
  readonly request: SecretRequest;
  readonly tenantId: string;
  readonly deadlineMs: number;
  readonly connectTimeoutMs: number;
  readonly connectDeadlineMs: number;

  // Mutable state: the progress of the call.
  slot = -1;
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  firstByteMs: number | null = null;
  cancelOpening: Cancel | undefined;
  head: ResponseHead | undefined;
  protected isOver = false;

  constructor(clock: Clock, deadlines: DeadlineTimer, call: SessionAttemptCall) {
    const { attemptTimeoutMs, connectTimeoutMs, signal } = call.options;
    this.clock = clock;
    this.#deadlines = deadlines;
    this.call = call;
    this.request = call.request;
    this.tenantId = call.request.tenantId ?? "";
    this.startMs = clock.monotonicMs();
    this.deadlineMs = this.startMs + attemptTimeoutMs;
    this.connectTimeoutMs = Math.min(connectTimeoutMs, attemptTimeoutMs);
    this.connectDeadlineMs = this.startMs + this.connectTimeoutMs;
    deadlines.add(this);
    this.#stopListening = signal && onAbort(signal, () => this.endEarly(undefined));
  }

  abstract readonly body: BodyCapture | undefined;
  abstract onSession(session: Kept): void;
  abstract onNoSession(error: Error): void;

  /** Ended by us, not by the target. No failure means an abort. */
  protected abstract endEarly(failure: Failure | undefined): void;

  /** Called when the deadline has passed. */
  expire(): void {
    this.endEarly(timeoutFailure(this.call.options.attemptTimeoutMs));
  }

  protected endFailed(failure: Failure, isSent: boolean): void {
    this.end(failureOutcome(failure, isSent), failure, false);
  }

  /** Settles the attempt. `isComplete`: the whole response was received. */
  protected end(outcome: Outcome, note: ResultNote | null, isComplete: boolean): void {
    this.isOver = true;
    this.#deadlines.remove(this);
    this.#stopListening?.();
    const durationMs = this.clock.monotonicMs() - this.startMs;
    this.call.settle(resultOf(this, outcome, note, isComplete, durationMs));
  }
}
