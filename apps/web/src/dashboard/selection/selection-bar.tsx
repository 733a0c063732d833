/** Selection bar: how many tasks are selected, everything that matches, and the bulk actions. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import { RedriveWizard } from "../dead-letters/redrive-wizard.tsx";
import { apiFilter, type TaskFilters } from "../filters/task-filters.ts";
import { formatInstant } from "../parts/times.tsx";
import { client, now, problemOf, type TaskView } from "../service/client.ts";
import { may } from "../service/session.ts";
import type { BulkName } from "./bulk.ts";
import { bulkActions } from "./bulk-actions.ts";
import { BulkDialog } from "./bulk-dialog.tsx";
import { redriveSetOf } from "./redrive-set.ts";
import { freeze, NOTHING, type Selection } from "./selection.ts";

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
