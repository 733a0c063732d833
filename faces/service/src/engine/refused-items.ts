/**
 * Refused items: what happens to an item that the store refuses because of its content. A caller that
 * waits gets the error. A settle is repeated with less content, because its claim must end. Nothing is
 * repeated forever.
 */
import type { Clock } from "@redrive/core";
import type { Batch, CommitResult, Settle } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { StoreRefusedError } from "../model/store-errors.ts";
import type { AttemptLog } from "../model/task.ts";
import {
  applyFailure,
  applyResult,
  type CommitContext,
  type PendingCommit,
} from "./commit-batch.ts";
import { type CommitQueue, failItems, type SettleItem } from "./commit-queue.ts";
import type { StoreHealth } from "./store-health.ts";

/** A lane whose claim the store refuses is not claimed again for this long. */
const REFUSED_CLAIM_MS = 10_000;

/**
 * A commit of which the store refuses every item is repeated this often. Then the items are the cause:
 * several of them may be bad, with no good one among them.
 */
const MAX_REPEATS = 2;

const REFUSED = "the store refused the log of this attempt";

interface RefusedItemsParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly queue: CommitQueue;
  readonly health: StoreHealth;
  readonly context: () => CommitContext;
  /** No result may be applied any more. */
  readonly isClosed: () => boolean;
}

/** What remains of a commit: these parts failed with this error. */
interface Remainder {
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
    for (const settle of item.settles) {
      const simpler = simplerSettle(settle);
      if (simpler === undefined) context().runner.giveUp();
      else queue.restore([simpler], []);
    }
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

// Isolation: finds the items of a commit that the store refuses because of their content, and commits
// all others. It runs only after a commit was refused: the commit is divided into halves, and these
// again, until each refused part is a single item. One bad item among 256 costs about 16 commits.

interface IsolationHandlers {
  /** These items are committed. */
  readonly succeeded: (part: PendingCommit, result: CommitResult) => void;
  /** The store refuses this one item, but not the others. */
  readonly refused: (item: PendingCommit, error: unknown) => void;
  /** The effect of these items is unknown, or the store refuses every item. */
  readonly failed: (part: PendingCommit, error: unknown) => void;
}

/**
 * Resolves when every item was reported to one of the handlers. Never rejects. `isCertain`: items are
 * the cause even if the store refuses every one of them.
 */
async function isolate(
  commit: PendingCommit,
  write: (batch: Batch) => Promise<CommitResult>,
  handlers: IsolationHandlers,
  isCertain = false,
): Promise<void> {
  const refused: Refusal[] = [];
  // The later items come last, so that the items are committed in the order of the batch.
  const parts = halvesOf(commit).reverse();
  let committed = 0;
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const { result, error } = await attempt(part, write);
    if (result !== undefined) {
      committed++;
      handlers.succeeded(part, result);
    } else if (!(error instanceof StoreRefusedError)) {
      for (const one of [part, ...parts.splice(0)]) handlers.failed(one, error);
    } else if (sizeOf(part.batch) > 1) parts.push(...halvesOf(part).reverse());
    else refused.push({ item: part, error });
  }
  // If the store refuses everything, an item is hardly the cause.
  const isCause = isCertain || committed > 0 || refused.length === 1;
  const report = isCause ? handlers.refused : handlers.failed;
  for (const { item, error } of refused) report(item, error);
}

interface Refusal {
  readonly item: PendingCommit;
  readonly error: unknown;
}

async function attempt(
  { batch }: PendingCommit,
  write: (batch: Batch) => Promise<CommitResult>,
): Promise<{ readonly result?: CommitResult; readonly error?: unknown }> {
  try {
    return { result: await write(batch) };
  } catch (error) {
    return { error };
  }
}

/**
 * The commit without claims, and its claims alone. A claim belongs to the row that is written with it,
 * above all to the row of a probe, so the two are not committed apart.
 */
function splitClaims(commit: PendingCommit): readonly [PendingCommit, PendingCommit] {
  const { batch, claims } = commit;
  const creates = batch.creates.map((create) => ({ ...create, claimVersion: null }));
  const rest = { ...commit, claims: [], batch: { ...batch, creates, claims: [] } };
  const empty = sliceOf(commit, 0, 0);
  return [rest, { ...empty, claims, batch: { ...empty.batch, claims: batch.claims } }];
}

const LISTS = [
  "destinations",
  "creates",
  "settles",
  "cancels",
  "retryNows",
  "claims",
  "documents",
] as const;

function sizeOf(batch: Batch): number {
  return LISTS.reduce((sum, name) => sum + batch[name].length, 0);
}

/** The first and the second half of the items, in the order in which a store carries them out. */
function halvesOf(commit: PendingCommit): PendingCommit[] {
  const size = sizeOf(commit.batch);
  const middle = Math.ceil(size / 2);
  const halves = [sliceOf(commit, 0, middle), sliceOf(commit, middle, size)];
  return halves.filter(({ batch }) => sizeOf(batch) > 0);
}

/** The items from `start` to `end`, counted over all lists. */
function sliceOf(commit: PendingCommit, start: number, end: number): PendingCommit {
  const { batch } = commit;
  let before = 0;
  const cuts = LISTS.map((name) => {
    const from = Math.max(0, start - before);
    const to = Math.max(from, Math.min(batch[name].length, end - before));
    before += batch[name].length;
    return [name, { from, to }] as const;
  });
  const cut = Object.fromEntries(cuts) as Record<(typeof LISTS)[number], Cut>;
  return {
    creates: part(commit.creates, cut.creates),
    permits: part(commit.permits, cut.creates),
    settles: part(commit.settles, cut.settles),
    cancels: part(commit.cancels, cut.cancels),
    retryNows: part(commit.retryNows, cut.retryNows),
    claims: part(commit.claims, cut.claims),
    written: part(commit.written, cut.destinations),
    batch: {
      now: batch.now,
      expiresAt: batch.expiresAt,
      nodeId: batch.nodeId,
      destinations: part(batch.destinations, cut.destinations),
      creates: part(batch.creates, cut.creates),
      settles: part(batch.settles, cut.settles),
      cancels: part(batch.cancels, cut.cancels),
      retryNows: part(batch.retryNows, cut.retryNows),
      claims: part(batch.claims, cut.claims),
      // With every part: a wake-up that is sent twice, or before its task is stored, is harmless.
      wakeUps: batch.wakeUps,
      documents: part(batch.documents, cut.documents),
    },
  };
}

interface Cut {
  readonly from: number;
  readonly to: number;
}

function part<T>(list: readonly T[], { from, to }: Cut): readonly T[] {
  return list.slice(from, to);
}
