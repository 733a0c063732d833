/** Tasks page: the list of tasks with its filters, their exact count, and the selection. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { Notice } from "../../components/notice.tsx";
import {
  apiFilter,
  filterProblem,
  filtersOf,
  isCounted,
  isFiltered,
  type TaskFilters,
} from "../filters/task-filters.ts";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { NOTHING, type Selection } from "../selection/selection.ts";
import { SelectionBar } from "../selection/selection-bar.tsx";
import { client, createCommand, now } from "../service/client.ts";
import { usePolled } from "../service/use-polled.ts";
import { FilterForm } from "./filter-form.tsx";
import { MAX_FRESH } from "./rows.ts";
import { TaskTable } from "./task-table.tsx";
import { type RowState, useRows } from "./use-rows.ts";

/** A count may examine every task. */
const COUNT_EVERY_MS = 15_000;

export function TasksPage() {
  const { query } = route.value;
  const filters = filtersOf(query);
  const isValid = filterProblem(filters) === "";
  return (
    <PageFrame title="Tasks">
      <FilterForm filters={filters} />
      {isValid && <TaskListing filters={filters} cursor={query["cursor"] ?? ""} />}
    </PageFrame>
  );
}

interface ListingProps {
  readonly filters: TaskFilters;
  readonly cursor: string;
}

function TaskListing({ filters, cursor }: ListingProps) {
  const { state, showFresh } = useRows(filters, cursor);
  const key = JSON.stringify(filters);
  const counted = usePolled(key, () => client.countTasks(apiFilter(filters, now())), {
    everyMs: COUNT_EVERY_MS,
    isConcerned: ({ type }) => isCounted(filters) && type.startsWith("task."),
  });
  const selection = useSignal<Selection>(NOTHING);
  // Another filter shows other tasks, so nothing stays selected.
  useEffect(() => {
    selection.value = NOTHING;
  }, [key]);
  const { rows, problem } = state;
  const fresh = rows?.fresh.size ?? 0;
  const tasks = rows?.tasks ?? [];
  const select = (next: Selection) => {
    selection.value = next;
  };
  return (
    <>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      <div class="list-head">
        <p class="count" aria-live="polite">
          {counted.data === undefined ? "counting…" : countText(counted.data)}
        </p>
        <div class="fresh" aria-live="polite">
          {fresh > 0 && (
            <button type="button" class="button small accent" onClick={showFresh}>
              {fresh >= MAX_FRESH ? `${formatInteger(MAX_FRESH)}+` : formatInteger(fresh)} new
            </button>
          )}
        </div>
      </div>
      <SelectionBar
        selection={selection.value}
        filters={filters}
        tasks={tasks}
        count={counted.data?.complete === true ? counted.data.count : undefined}
        onSelect={select}
        onChanged={() => {
          showFresh();
          counted.reload();
        }}
      />
      {rows === undefined && problem === "" && <p class="loading">Loading…</p>}
      {tasks.length > 0 && (
        <TaskTable tasks={tasks} selection={selection.value} onSelect={select} />
      )}
      {rows !== undefined && tasks.length === 0 && fresh === 0 && (
        <NoTasks filters={filters} isLast={state.cursor === null} />
      )}
      <Pages state={state} filters={filters} cursor={cursor} />
    </>
  );
}

interface Counted {
  readonly count: number;
  readonly complete: boolean;
}

function countText({ count, complete }: Counted): string {
  const text = formatCount(count, "task");
  return complete ? text : `at least ${text}`;
}

function NoTasks({ filters, isLast }: { readonly filters: TaskFilters; readonly isLast: boolean }) {
  if (!isLast) return <p class="faint">None of the tasks examined so far match.</p>;
  if (isFiltered(filters)) return <EmptyState title="No task matches these filters" />;
  return (
    <EmptyState title="There are no tasks yet" command={createCommand()}>
      Create one. It appears here at once.
    </EmptyState>
  );
}

function Pages({ state, filters, cursor }: ListingProps & { readonly state: RowState }) {
  if (cursor === "" && state.cursor === null) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      {cursor !== "" && (
        <Link page="tasks" query={filters} class="button">
          First page
        </Link>
      )}
      {state.cursor !== null && (
        <Link page="tasks" query={{ ...filters, cursor: state.cursor }} class="button">
          Older tasks
        </Link>
      )}
    </nav>
  );
}
