/** Bulk: applies an action to the ids of a selection, in batches, until all are done or the user stops. */
import { formatCount, formatInteger } from "@redrive/core";
import type { ManyResult, TaskView } from "../service/client.ts";

export type BulkName = "retry" | "cancel" | "discard";

export interface BulkAction {
  readonly name: BulkName;
  readonly label: string;
  /** The scope that it needs. */
  readonly scope: string;
  /** The tasks that it can change. */
  readonly statuses: readonly TaskView["status"][];
  /** What it does to these tasks, as a sentence. */
  readonly effect: string;
  /** "canceled" in "12 canceled". */
  readonly done: string;
  run(taskIds: readonly string[]): Promise<ManyResult>;
}

export interface Progress {
  readonly total: number;
  /** Ids that were sent to the service. */
  readonly sent: number;
  readonly done: number;
  readonly requested: number;
  /** Refused ids by the code of the reason. */
  readonly refused: ReadonlyMap<string, number>;
}

const BATCH = 500;

export function startProgress(total: number): Progress {
  return { total, sent: 0, done: 0, requested: 0, refused: new Map() };
}

/** `onProgress` gets every step; false stops before the next batch. Rejects if a batch fails. */
export async function runBulk(
  ids: readonly string[],
  run: BulkAction["run"],
  onProgress: (progress: Progress) => boolean,
): Promise<Progress> {
  let progress = startProgress(ids.length);
  for (let first = 0; first < ids.length; first += BATCH) {
    const batch = ids.slice(first, first + BATCH);
    progress = added(progress, batch.length, await run(batch));
    if (!onProgress(progress)) break;
  }
  return progress;
}

function added(
  progress: Progress,
  sent: number,
  { done, requested, refused }: ManyResult,
): Progress {
  const codes = new Map(progress.refused);
  for (const { code } of refused) codes.set(code, (codes.get(code) ?? 0) + 1);
  return {
    ...progress,
    sent: progress.sent + sent,
    done: progress.done + done,
    requested: progress.requested + requested,
    refused: codes,
  };
}

const CODES: Readonly<Record<string, string>> = {
  TASK_STATE_CONFLICT: "are in another state by now",
  TASK_NOT_FOUND: "do not exist any more",
};

/** The result, one sentence each. */
export function resultOf(action: Pick<BulkAction, "done">, progress: Progress): readonly string[] {
  const { total, sent, done, requested, refused } = progress;
  const others = sent - done - requested - [...refused.values()].reduce((sum, n) => sum + n, 0);
  return [
    `${formatCount(done, "task")} ${action.done}.`,
    ...(requested > 0
      ? [`${formatInteger(requested)} run now and end as canceled, unless they succeed.`]
      : []),
    ...[...refused].map(
      ([code, count]) => `${formatInteger(count)} ${CODES[code] ?? `were refused (${code})`}.`,
    ),
    ...(others > 0 ? [`${formatInteger(others)} were not changed.`] : []),
    ...(sent < total ? [`Stopped: ${formatInteger(total - sent)} were left alone.`] : []),
  ];
}
