/** Tasks page: the list of tasks with its filters, their exact count, and the selection. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
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
  const { selection, select, isCurrent } = useSelection(key);
  const list = useStartOfList(JSON.stringify([key, cursor]), state.isStale);
  const { rows, problem } = state;
  const fresh = rows?.fresh.size ?? 0;
  const tasks = rows?.tasks ?? [];
  // A count or another address changes no row.
  const table = useMemo(
    () => tasks.length > 0 && <TaskTable tasks={tasks} selection={selection} onSelect={select} />,
    [rows?.tasks, selection],
  );
  return (
    <>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      <div class="list-head">
        <p class="count" aria-live="polite">
          {counted.data === undefined ? "counting…" : countText(counted.data)}
        </p>
        <div class="fresh" aria-live="polite">
          {state.isStale && <span class="faint slow-note">loading…</span>}
          {fresh > 0 && !state.isStale && (
            <button type="button" class="button small accent" onClick={showFresh}>
              {fresh >= MAX_FRESH ? `${formatInteger(MAX_FRESH)}+` : formatInteger(fresh)} new
            </button>
          )}
        </div>
      </div>
      <SelectionBar
        selection={selection}
        filters={filters}
        tasks={tasks}
        count={counted.data?.complete === true ? counted.data.count : undefined}
        onSelect={select}
        isCurrent={isCurrent}
        onChanged={() => {
          showFresh();
          counted.reload();
        }}
      />
      {rows === undefined && problem === "" && <p class="loading">Loading…</p>}
      <div ref={list} class="listing" aria-busy={state.isStale}>
        {/* Rows of the previous list can be read and opened, but not selected. */}
        <fieldset disabled={state.isStale}>{table}</fieldset>
        {rows !== undefined && tasks.length === 0 && fresh === 0 && (
          <NoTasks filters={filters} isLast={state.older === null} />
        )}
      </div>
      <Pages older={state.older} filters={filters} cursor={cursor} />
    </>
  );
}

/** The selected tasks. Another filter shows other tasks, so nothing stays selected. */
function useSelection(key: string) {
  const selection = useSignal<Selection>(NOTHING);
  useEffect(() => {
    selection.value = NOTHING;
  }, [key]);
  return {
    selection: selection.value,
    select: (next: Selection) => {
      selection.value = next;
    },
    isCurrent: (one: Selection) => selection.peek() === one,
  };
}

/** Scrolls to the first row when other rows have replaced those at whose end the user was. */
function useStartOfList(key: string, isStale: boolean): RefObject<HTMLDivElement | null> {
  const list = useRef<HTMLDivElement>(null);
  const shown = useRef(key);
  useLayoutEffect(() => {
    if (isStale || shown.current === key) return;
    shown.current = key;
    if ((list.current?.getBoundingClientRect().top ?? 0) < 0) list.current?.scrollIntoView();
  }, [key, isStale]);
  return list;
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

function Pages({ older, filters, cursor }: ListingProps & Pick<RowState, "older">) {
  if (cursor === "" && older === null) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      {cursor !== "" && (
        <Link page="tasks" query={filters} class="button">
          First page
        </Link>
      )}
      {older !== null && (
        <Link page="tasks" query={older} class="button">
          Older tasks
        </Link>
      )}
    </nav>
  );
}
