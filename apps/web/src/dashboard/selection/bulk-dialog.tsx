/**
 * Bulk dialog: previews the frozen set of a bulk action, runs it after a confirmation with progress and
 * a stop button, and reports what happened.
 */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Notice } from "../../components/notice.tsx";
import { statusLabel } from "../parts/status.tsx";
import { formatInstant } from "../parts/times.tsx";
import { problemOf, type TaskView } from "../service/client.ts";
import { type BulkAction, type Progress, resultOf, runBulk, startProgress } from "./bulk.ts";
import type { Selection } from "./selection.ts";

interface BulkDialogProps {
  readonly action: BulkAction;
  readonly selection: Selection;
  /** The tasks of the selection that the page knows. */
  readonly known: readonly TaskView[];
  onClose(hasChanged: boolean): void;
}

const SAMPLES = 5;

export function BulkDialog({ action, selection, known, onClose }: BulkDialogProps) {
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
