/** Tasks page: the list of tasks with its filters. */
import { formatInteger } from "@redrive/core";
import { Notice } from "../../components/notice.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { serviceUrl } from "../service/client.ts";
import { FilterForm } from "./filter-form.tsx";
import { filterNames, filterProblem, filtersOf, type TaskFilters } from "./filters.ts";
import { MAX_FRESH } from "./rows.ts";
import { TaskTable } from "./task-table.tsx";
import { type RowState, useRows } from "./use-rows.ts";

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
  const { rows, problem } = state;
  const fresh = rows?.fresh.size ?? 0;
  return (
    <>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      <div class="fresh" aria-live="polite">
        {fresh > 0 && (
          <button type="button" class="button accent" onClick={showFresh}>
            {fresh >= MAX_FRESH ? `${formatInteger(MAX_FRESH)}+` : formatInteger(fresh)} new
          </button>
        )}
      </div>
      {rows === undefined && problem === "" && <p class="loading">Loading…</p>}
      {rows !== undefined && rows.tasks.length > 0 && <TaskTable tasks={rows.tasks} />}
      {rows !== undefined && rows.tasks.length === 0 && fresh === 0 && (
        <NoTasks filters={filters} isLast={state.cursor === null} />
      )}
      <Pages state={state} filters={filters} cursor={cursor} />
    </>
  );
}

function NoTasks({ filters, isLast }: { readonly filters: TaskFilters; readonly isLast: boolean }) {
  if (!isLast) return <p class="faint">None of the tasks examined so far match.</p>;
  if (filterNames.some((name) => filters[name] !== "")) {
    return <EmptyState title="No task matches these filters" />;
  }
  const command = `curl --json '{ "targetUrl": "https://example.com/hook", "json": { "order": 17 } }' ${serviceUrl}retry-tasks`;
  return (
    <EmptyState title="There are no tasks yet" command={command}>
      Create one. It appears here at once.
    </EmptyState>
  );
}

function Pages({ state, filters, cursor }: ListingProps & { readonly state: RowState }) {
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
