/**
 * Isolation: finds the items of a commit that the store refuses because of their content, and commits
 * all others. It runs only after a commit was refused: the commit is divided into halves, and these
 * again, until each refused part is a single item. One bad item among 256 costs about 16 commits.
 */
import type { Batch, CommitResult } from "../../model/batch.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import type { PendingCommit } from "./commit-batch.ts";

export interface IsolationHandlers {
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
export async function isolate(
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
export function splitClaims(commit: PendingCommit): readonly [PendingCommit, PendingCommit] {
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
    hints: commit.hints,
    batch: {
      now: batch.now,
      nodeId: batch.nodeId,
      destinations: part(batch.destinations, cut.destinations),
      creates: part(batch.creates, cut.creates),
      settles: part(batch.settles, cut.settles),
      cancels: part(batch.cancels, cut.cancels),
      retryNows: part(batch.retryNows, cut.retryNows),
      claims: part(batch.claims, cut.claims),
      // With every part: a hint that is stored twice, or before its task, is harmless.
      hints: batch.hints,
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
