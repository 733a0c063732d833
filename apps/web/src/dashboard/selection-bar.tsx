/** Selection bar: how many tasks are selected, everything that matches, and the bulk actions. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Notice } from "../components/frames.tsx";
import { client, type ManyResult, may, now, problemOf, type TaskView } from "./parts/client.ts";
import { type RedriveSet, RedriveWizard } from "./parts/redrive-wizard.tsx";
import { statusLabel } from "./parts/status.tsx";
import {
  apiFilter,
  freeze,
  NOTHING,
  type Selection,
  type TaskFilters,
} from "./parts/task-selection.ts";
import { formatInstant } from "./parts/times.tsx";

interface SelectionBarProps {
  readonly selection: Selection;
  readonly filters: TaskFilters;
  /** The rows of the page. */
  readonly tasks: readonly TaskView[];
  /** Tasks that match; undefined: not known yet. */
  readonly count: number | undefined;
  onSelect(selection: Selection): void;
  /** False: the user has changed the selection since. */
  isCurrent(selection: Selection): boolean;
  /** Tasks have changed. */
  onChanged(): void;
}

export function SelectionBar(props: SelectionBarProps) {
  const { selection, filters, tasks, onSelect, onChanged } = props;
  const open = useSignal<BulkName | "redrive" | undefined>(undefined);
  const { ids, frozenAt } = selection;
  if (ids.size === 0) return null;
  const known = tasks.filter(({ taskId }) => ids.has(taskId));
  const isOffered = (statuses: readonly string[]) =>
    frozenAt === undefined || filters.status === ""
      ? known.some(({ status }) => statuses.includes(status)) || frozenAt !== undefined
      : statuses.includes(filters.status);
  const set = redriveSetOf(selection, filters, known);
  return (
    <>
      <div class="selection-bar" role="toolbar" aria-label="Selected tasks">
        <span aria-live="polite">
          <strong>{formatInteger(ids.size)}</strong> selected
          {frozenAt !== undefined && (
            <span class="faint">, frozen at {formatInstant(frozenAt)}</span>
          )}
        </span>
        <SelectAll {...props} />
        {Object.values(bulkActions)
          .filter(({ scope, statuses }) => may(scope) && isOffered(statuses))
          .map(({ name, label }) => (
            <button
              key={name}
              type="button"
              class="button small"
              data-key={name === "retry" ? "r" : undefined}
              onClick={() => {
                open.value = name;
              }}
            >
              {label}…
            </button>
          ))}
        {may("dlq:redrive") && (
          <RedriveButton
            isOffered={
              frozenAt === undefined ? isOffered(["EXHAUSTED"]) : filters.status === "EXHAUSTED"
            }
            isPossible={set !== undefined}
            onClick={() => {
              open.value = "redrive";
            }}
          />
        )}
        <button type="button" class="button small quiet" onClick={() => onSelect(NOTHING)}>
          Clear
        </button>
      </div>
      {open.value === "redrive" && set !== undefined && (
        <RedriveWizard
          set={set}
          onClose={() => {
            open.value = undefined;
          }}
        />
      )}
      {open.value !== undefined && open.value !== "redrive" && (
        <BulkDialog
          action={bulkActions[open.value]}
          selection={selection}
          known={known}
          onClose={(hasChanged) => {
            open.value = undefined;
            if (!hasChanged) return;
            onSelect(NOTHING);
            onChanged();
          }}
        />
      )}
    </>
  );
}

interface RedriveButtonProps {
  readonly isOffered: boolean;
  readonly isPossible: boolean;
  onClick(): void;
}

function RedriveButton({ isOffered, isPossible, onClick }: RedriveButtonProps) {
  if (!isOffered) return null;
  const { maxItems } = REDRIVE_BOUNDS.taskIds;
  const why = isPossible
    ? undefined
    : `A redrive takes everything that matches, or at most ${formatInteger(maxItems)} single dead letters.`;
  return (
    <button type="button" class="button small" disabled={!isPossible} title={why} onClick={onClick}>
      Redrive…
    </button>
  );
}

/**
 * Offers everything that matches once the whole page is selected. If the user changes the selection
 * while everything is listed, that change counts, and the list ends.
 */
function SelectAll(props: SelectionBarProps) {
  const { selection, filters, tasks, count, onSelect, isCurrent } = props;
  /** How many ids were listed so far, for which selection; undefined: not listing. */
  const listing = useSignal<{ readonly of: Selection; readonly count: number } | undefined>(
    undefined,
  );
  const problem = useSignal("");
  const isPage = tasks.every(({ taskId }) => selection.ids.has(taskId));
  if (problem.value !== "") return <span class="problem">{problem.value}</span>;
  if (listing.value?.of === selection) {
    return <span class="faint">listing… {formatInteger(listing.value.count)}</span>;
  }
  if (!isPage || selection.frozenAt !== undefined) return null;
  if (count !== undefined && count <= selection.ids.size) return null;
  const start = async () => {
    const show = (found: number) => {
      if (!isCurrent(selection)) return false;
      listing.value = { of: selection, count: found };
      return true;
    };
    show(0);
    try {
      const at = now();
      const frozen = await freeze(
        (query) => client.listTaskIds(query),
        apiFilter(filters, at),
        at,
        show,
      );
      if (frozen !== undefined) onSelect(frozen);
    } catch (error) {
      if (isCurrent(selection)) problem.value = problemOf(error);
    }
    if (listing.value?.of === selection) listing.value = undefined;
  };
  return (
    <button type="button" class="button small link" onClick={start}>
      Select all {count === undefined ? "that match" : `${formatCount(count, "task")} that match`}
    </button>
  );
}

// Bulk dialog: previews the frozen set of a bulk action, runs it after a confirmation with progress
// and a stop button, and reports what happened.

interface BulkDialogProps {
  readonly action: BulkAction;
  readonly selection: Selection;
  /** The tasks of the selection that the page knows. */
  readonly known: readonly TaskView[];
  onClose(hasChanged: boolean): void;
}

const SAMPLES = 5;

function BulkDialog({ action, selection, known, onClose }: BulkDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const progress = useSignal<Progress | undefined>(undefined);
  const isRunning = useSignal(false);
  const isStopped = useSignal(false);
  const problem = useSignal("");
  useEffect(() => dialog.current?.showModal(), []);
  // Once: the set stays as it was when the dialog was opened, and may have a hundred thousand ids.
  const { ids, leftOut } = useMemo(() => applicable(action, selection, known), []);
  const run = async () => {
    isRunning.value = true;
    progress.value = startProgress(ids.length);
    try {
      await runBulk(ids, action.run, (next) => {
        progress.value = next;
        return !isStopped.value;
      });
    } catch (error) {
      problem.value = problemOf(error);
    }
    isRunning.value = false;
  };
  const hasRun = progress.value !== undefined;
  return (
    <dialog
      ref={dialog}
      class="sheet bulk"
      aria-labelledby="bulk-title"
      onCancel={(event) => {
        if (isRunning.value) event.preventDefault();
      }}
      onClose={() => onClose(hasRun)}
    >
      <h2 id="bulk-title">
        {action.label}: {formatCount(ids.length, "task")}
      </h2>
      {!hasRun && <Preview action={action} selection={selection} known={known} leftOut={leftOut} />}
      {progress.value !== undefined && (
        <Outcome action={action} progress={progress.value} isRunning={isRunning.value} />
      )}
      {problem.value !== "" && <Notice tone="bad">{problem.value}</Notice>}
      <div class="actions">
        {!hasRun && (
          <button
            type="button"
            class={action.name === "retry" ? "button accent" : "button danger"}
            disabled={ids.length === 0}
            onClick={run}
          >
            {action.label}: {formatCount(ids.length, "task")}
          </button>
        )}
        {isRunning.value ? (
          <button
            type="button"
            class="button"
            disabled={isStopped.value}
            onClick={() => {
              isStopped.value = true;
            }}
          >
            {isStopped.value ? "Stopping…" : "Stop"}
          </button>
        ) : (
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {hasRun ? "Close" : "Back"}
          </button>
        )}
      </div>
    </dialog>
  );
}

/** Tasks that the page knows to be in another status are left out. */
function applicable(
  { statuses }: BulkAction,
  { ids }: Selection,
  known: readonly TaskView[],
): { readonly ids: readonly string[]; readonly leftOut: ReadonlyMap<string, number> } {
  const wrong = known.filter(({ taskId, status }) => ids.has(taskId) && !statuses.includes(status));
  const excluded = new Set(wrong.map(({ taskId }) => taskId));
  const leftOut = new Map<string, number>();
  for (const { status } of wrong) leftOut.set(status, (leftOut.get(status) ?? 0) + 1);
  return { ids: [...ids].filter((id) => !excluded.has(id)), leftOut };
}

interface PreviewProps extends Pick<BulkDialogProps, "action" | "selection" | "known"> {
  readonly leftOut: ReadonlyMap<string, number>;
}

function Preview({ action, selection, known, leftOut }: PreviewProps) {
  const { ids, frozenAt, isComplete } = selection;
  const samples = known
    .filter(({ taskId, status }) => ids.has(taskId) && action.statuses.includes(status))
    .slice(0, SAMPLES);
  return (
    <>
      <p>{action.effect}</p>
      <p>
        {frozenAt === undefined
          ? "Only the selected rows are affected."
          : `The set was frozen at ${formatInstant(frozenAt)}. Tasks that match later are not affected.`}
        {!isComplete &&
          ` More tasks match than can be selected at once: these are the newest ${formatInteger(ids.size)}.`}
      </p>
      {leftOut.size > 0 && (
        <p class="faint">
          Left out:{" "}
          {[...leftOut]
            .map(([status, count]) => `${formatInteger(count)} ${statusLabel(status)}`)
            .join(", ")}
          .
        </p>
      )}
      {samples.length > 0 && (
        <ul class="plain-list">
          {samples.map(({ taskId, destination }) => (
            <li key={taskId}>
              <span class="id">{taskId}</span> <bdi>{destination}</bdi>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

interface OutcomeProps {
  readonly action: BulkAction;
  readonly progress: Progress;
  readonly isRunning: boolean;
}

function Outcome({ action, progress, isRunning }: OutcomeProps) {
  const { sent, total } = progress;
  return (
    <div aria-live="polite">
      <progress class="progress" max={Math.max(1, total)} value={sent}>
        {sent} of {total}
      </progress>
      {isRunning ? (
        <p>
          {formatInteger(sent)} of {formatInteger(total)}
        </p>
      ) : (
        resultOf(action, progress).map((sentence) => <p key={sentence}>{sentence}</p>)
      )}
    </div>
  );
}

/** What can be done with many tasks at once. */
const bulkActions: Readonly<Record<BulkName, BulkAction>> = {
  retry: {
    name: "retry",
    label: "Retry now",
    scope: "tasks:cancel",
    statuses: ["PENDING"],
    effect: "Each waiting task is due now. Guards still apply.",
    done: "due now",
    run: (taskIds) => client.retryTasksNow(taskIds),
  },
  cancel: {
    name: "cancel",
    label: "Cancel",
    scope: "tasks:cancel",
    statuses: ["PENDING", "IN_FLIGHT"],
    effect: "They get no further attempt and cannot be resumed.",
    done: "canceled",
    run: (taskIds) => client.cancelTasks(taskIds),
  },
  discard: {
    name: "discard",
    label: "Discard",
    scope: "dlq:redrive",
    statuses: ["EXHAUSTED"],
    effect: "They are removed permanently, with their history. This cannot be undone.",
    done: "discarded",
    async run(taskIds) {
      const { discarded } = await client.discardTasks(taskIds);
      return { done: discarded, requested: 0, refused: [] };
    },
  },
};

// Bulk: applies an action to the ids of a selection, in batches, until all are done or the user
// stops.

type BulkName = "retry" | "cancel" | "discard";

interface BulkAction {
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

interface Progress {
  readonly total: number;
  /** Ids that were sent to the service. */
  readonly sent: number;
  readonly done: number;
  readonly requested: number;
  /** Refused ids by the code of the reason. */
  readonly refused: ReadonlyMap<string, number>;
}

const BATCH = 500;

function startProgress(total: number): Progress {
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

const { maxItems } = REDRIVE_BOUNDS.taskIds;

/**
 * A large frozen set is redriven by its filter, up to the instant at which it was listed: dead letters
 * do not change, so the filter selects no others later. Fewer are redriven by their ids. Undefined if
 * there are too many ids, and the filter selects more than these.
 */
function redriveSetOf(
  { ids, frozenAt, isWhole }: Selection,
  filters: TaskFilters,
  known: readonly TaskView[],
): RedriveSet | undefined {
  if (ids.size > maxItems) {
    if (frozenAt === undefined || !isWhole) return undefined;
    const { status: _, redriven: __, ...filter } = apiFilter(filters, frozenAt);
    return { title: "everything that matches", filter: { ...filter, finishedTo: frozenAt } };
  }
  const dead = known.filter(({ status }) => status === "EXHAUSTED");
  const taskIds = frozenAt === undefined ? dead.map(({ taskId }) => taskId) : [...ids];
  return { title: "the selected dead letters", taskIds, samples: dead };
}
