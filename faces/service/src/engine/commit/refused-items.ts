/**
 * Refused items: what happens to an item that the store refuses because of its content. A caller that
 * waits gets the error. A settle is repeated with less content, because its claim must end. Nothing is
 * repeated forever.
 */
import type { Clock } from "@redrive/core";
import type { Batch, CommitResult, Settle } from "../../model/batch.ts";
import type { Store } from "../../model/store.ts";
import type { AttemptLog } from "../../model/task.ts";
import type { StoreHealth } from "../node/store-health.ts";
import type { PendingCommit } from "./commit-batch.ts";
import { type CommitQueue, failItems, type SettleItem } from "./commit-queue.ts";
import { applyFailure, applyResult, type CommitContext } from "./commit-results.ts";
import { type IsolationHandlers, isolate, splitClaims } from "./isolation.ts";

/** A lane whose claim the store refuses is not claimed again for this long. */
const REFUSED_CLAIM_MS = 10_000;

/**
 * A commit of which the store refuses every item is repeated this often. Then the items are the cause:
 * several of them may be bad, with no good one among them.
 */
const MAX_REPEATS = 2;

const REFUSED = "the store refused the log of this attempt";

export interface RefusedItemsParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly queue: CommitQueue;
  readonly health: StoreHealth;
  readonly context: () => CommitContext;
  /** No result may be applied any more. */
  readonly isClosed: () => boolean;
}

/** What remains of a commit: these parts failed with this error. */
export interface Remainder {
  readonly parts: readonly PendingCommit[];
  readonly error: unknown;
}

export class RefusedItems {
  readonly #parts: RefusedItemsParts;
  /** Commits in a row of which the store refused every item. */
  #repeats = 0;

  constructor(parts: RefusedItemsParts) {
    this.#parts = parts;
  }

  /** Finds the items of a refused commit that cause it, and commits the others. */
  async recover(commit: PendingCommit): Promise<Remainder> {
    const { store, context } = this.#parts;
    const parts: PendingCommit[] = [];
    let failure: unknown;
    const fail = (part: PendingCommit, error: unknown) => {
      failure = error;
      parts.push(part);
    };
    let isFound = false;
    const [rest, claims] = splitClaims(commit);
    const handlers: IsolationHandlers = {
      succeeded: (part, result) => {
        this.#repeats = 0;
        this.#succeed(part, result, fail);
      },
      refused: (item, error) => {
        isFound = true;
        this.#repeats = 0;
        this.#refuse(item, error);
        // Claims need the row of a destination, so it is written again after a pause.
        if (item.written.length > 0) fail(item, error);
      },
      failed: fail,
    };
    const write = (batch: Batch) => store.commit(batch);
    const isCertain = this.#repeats >= MAX_REPEATS;
    this.#repeats++;
    await isolate(rest, write, handlers, isCertain);
    if (isFound || parts.length > 0) applyFailure(context(), claims, failure);
    else await isolate(claims, write, handlers, isCertain);
    return { parts, error: failure };
  }

  #succeed(
    part: PendingCommit,
    result: CommitResult,
    fail: (part: PendingCommit, error: unknown) => void,
  ): void {
    // The commit may have happened, but nobody may rely on it.
    if (this.#parts.isClosed()) fail(part, undefined);
    else applyResult(this.#parts.context(), part, result);
  }

  /** The store refuses this single item. */
  #refuse(item: PendingCommit, error: unknown): void {
    const { clock, queue, health, context, isClosed } = this.#parts;
    const { creates, settles, cancels, retryNows, claims } = item.batch;
    const [task = creates[0]?.task] = [...settles, ...cancels, ...retryNows];
    health.recordRefusal(error, task ?? claims[0]);
    if (isClosed()) {
      failItems(item, error);
      return;
    }
    queue.restore(
      item.settles.map(simplerSettle).filter((one) => one !== undefined),
      [],
    );
    const apply = () => {
      applyFailure(context(), item, error);
      queue.request();
    };
    // A claim fails again while the task that causes it is first in its lane.
    if (item.claims.length > 0) clock.alarm(REFUSED_CLAIM_MS, apply, true);
    else apply();
  }
}

/**
 * The settle to try next: without the texts and bytes of its attempt, then also without follow-up
 * tasks. Undefined: the store refused that too. The claim then stays with this process; the next
 * process settles it as abandoned.
 */
function simplerSettle(item: SettleItem): SettleItem | undefined {
  const { settle, destination, done, refusals = 0 } = item;
  if (refusals >= 2) return undefined;
  const attempt = settle.attempt && bareLog(settle.attempt);
  const bare: Settle = { ...settle, attempt };
  if (refusals === 0) return { settle: bare, destination, done, refusals: 1 };
  const { onEnd: _, lastError: __, ...rest } = bare;
  return { settle: rest, destination, done, refusals: 2 };
}

/** Only numbers that are in range, and texts that this program wrote. */
function bareLog(attempt: AttemptLog): AttemptLog {
  return {
    attemptNumber: attempt.attemptNumber,
    startedAt: wholeOr(attempt.startedAt, 0),
    durationMs: wholeOr(attempt.durationMs, 0),
    phases: null,
    outcome: attempt.outcome,
    responseStatus: wholeOr(attempt.responseStatus, null),
    errorClass: null,
    errorMessage: REFUSED,
    responseHeaders: null,
    responseBody: null,
    nextDelayMs: wholeOr(attempt.nextDelayMs, null),
    delaySource: attempt.delaySource,
    waits: attempt.waits,
  };
}

function wholeOr<Default>(value: number | null, otherwise: Default): number | Default {
  return value !== null && Number.isSafeInteger(value) ? value : otherwise;
}
