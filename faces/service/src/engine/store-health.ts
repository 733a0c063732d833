/**
 * Store health: records failures of the store and publishes them as events. After a failed commit
 * the store may hold claims and tasks that this node does not know; the rescuer and the due scan read
 * here whether to look for them. No other failure makes this node ask the store for more.
 */
import { type Clock, formatCount, messageOf, RedriveError } from "@redrive/core";
import type { TaskRef } from "../model/batch.ts";
import { StoreBrokenError, StoreRefusedError } from "../model/store-errors.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { EngineEvents, WritableEventBody } from "./events.ts";

/** A failed commit may still take effect within this time. */
const UNKNOWN_CLAIMS_MS = 60_000;

const MESSAGES_REPORT_MS = 60_000;

/** So many commits must have failed, for so long, before this node counts as one that cannot commit. */
const MIN_FAILURES = 3;
const FAILING_MS = 5000;
/** After this time without a commit it is open whether the node can commit: the next ones tell. */
const FORGET_MS = 30_000;

export class StoreHealth {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  readonly #broken: (error: unknown) => void;
  /**
   * The store may hold unknown claims until a check that starts after this finds none; 0: no. On the
   * monotonic clock: engine time may follow a step of the wall clock meanwhile.
   */
  #unknownClaimsUntilMs = 0;
  #commitFailedMs = Number.NEGATIVE_INFINITY;
  /** Commits that failed since the last one that succeeded, and when the first of them did. */
  #failures = 0;
  #failingSinceMs = 0;
  #unreadableMessages = 0;
  #messagesReportedMs = Number.NEGATIVE_INFINITY;

  /** `broken` is called when the store can no longer guarantee its content. */
  constructor(
    clock: Clock,
    time: EngineTime,
    events: EngineEvents,
    broken: (error: unknown) => void,
  ) {
    this.#clock = clock;
    this.#time = time;
    this.#events = events;
    this.#broken = broken;
  }

  mayHaveUnknownClaims(): boolean {
    return this.#unknownClaimsUntilMs > 0;
  }

  /** Starts a check of the claims of this node. Call the result once it has seen all of them. */
  startClaimCheck(): () => void {
    const startMs = this.#clock.monotonicMs();
    return () => {
      if (startMs >= this.#unknownClaimsUntilMs) this.#unknownClaimsUntilMs = 0;
    };
  }

  /** On the monotonic clock: when the last commit failed that may still take effect. */
  get commitFailedMs(): number {
    return this.#commitFailedMs;
  }

  /** False: the last commits have failed, for some time. Reads and renewals may still succeed. */
  canCommit(): boolean {
    if (this.#failures < MIN_FAILURES) return true;
    const nowMs = this.#clock.monotonicMs();
    return nowMs < this.#failingSinceMs + FAILING_MS || nowMs >= this.#commitFailedMs + FORGET_MS;
  }

  /** A commit failed: it is unknown what was stored. */
  recordCommitFailure(error: unknown): void {
    if (!(error instanceof StoreRefusedError)) {
      const nowMs = this.#clock.monotonicMs();
      if (nowMs >= this.#commitFailedMs + FORGET_MS) this.#failures = 0;
      if (this.#failures++ === 0) this.#failingSinceMs = nowMs;
      this.#commitFailedMs = nowMs;
      this.#unknownClaimsUntilMs = this.#commitFailedMs + UNKNOWN_CLAIMS_MS;
    }
    this.recordFailure(error);
  }

  /** A call of the store failed. If it was a commit, see `recordCommitFailure`. */
  recordFailure(error: unknown): void {
    if (error instanceof StoreRefusedError) {
      this.recordRefusal(error);
      return;
    }
    const now = this.#time.now();
    const code = error instanceof RedriveError ? `${error.code}: ` : "";
    this.#events.emit(now, { type: "store.failed", reason: code + messageOf(error) });
    if (error instanceof StoreBrokenError) this.#broken(error);
  }

  /** The store refuses one item because of its content. `task`: the item is about this task. */
  recordRefusal(error: unknown, task: Partial<TaskRef> = {}): void {
    const { tenantId, taskId } = task;
    const event: WritableEventBody = { type: "store.refused", reason: messageOf(error) };
    if (tenantId !== undefined) event.tenantId = tenantId;
    if (taskId !== undefined) event.taskId = taskId;
    this.#events.emit(this.#time.now(), event);
  }

  /** A message on the channel of the store is not from a node. Reported once a minute, with their number. */
  recordUnreadableMessage(): void {
    this.#unreadableMessages++;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#messagesReportedMs + MESSAGES_REPORT_MS) return;
    this.#messagesReportedMs = nowMs;
    const count = formatCount(this.#unreadableMessages, "message");
    const reason = `${count} on the store's channel were not from a Redrive node of this version`;
    this.#events.emit(this.#time.now(), { type: "store.messages-unreadable", reason });
    this.#unreadableMessages = 0;
  }

  /** A commit succeeded after a failure. */
  recordRecovery(): void {
    this.#failures = 0;
    this.#events.emit(this.#time.now(), { type: "store.recovered" });
  }
}
