/** Tasks page: the list of tasks with its filters, their exact count, and the selection. */
import { type Signal, useSignal } from "@preact/signals";
import { formatCount, formatInteger, systemClock } from "@redrive/core";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Notice } from "../components/frames.tsx";
import { FilterForm } from "./filter-form.tsx";
import {
  client,
  createCommand,
  type EventView,
  now,
  problemOf,
  type TaskList,
  type TaskQuery,
  type TaskView,
} from "./parts/client.ts";
import { Link, type Query, route } from "./parts/link.tsx";
import { onFollowing, onLive, Poller, requestOnce, usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";
import {
  apiFilter,
  filterProblem,
  filtersOf,
  isCounted,
  isFiltered,
  NOTHING,
  PAGE_SIZE,
  type Selection,
  startsToMatch,
  statusAfter,
  type TaskFilters,
} from "./parts/task-selection.ts";
import { loadPolicies, TaskTable } from "./parts/task-table.tsx";
import { SelectionBar } from "./selection-bar.tsx";

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

/** Events are faster; this finds what other nodes of a fleet did. */
const EVERY_MS = 10_000;

/** Requests for one page. A filter that hardly any task matches gives short pages. */
const MAX_REQUESTS = 5;

interface RowState {
  /** Undefined until the first response. */
  readonly rows: Rows | undefined;
  /** The address of the next page of these rows; null: this is the last. */
  readonly older: Query | null;
  /** The rows are those of the previous page or filter: the response is still missing. */
  readonly isStale: boolean;
  readonly problem: string;
}

const EMPTY: RowState = { rows: undefined, older: null, isStale: false, problem: "" };

/**
 * A hook that reads one page of tasks and keeps its rows current. Returns the rows, and a function that
 * shows the new tasks.
 */
function useRows(
  filters: TaskFilters,
  cursor: string,
): {
  readonly state: RowState;
  readonly showFresh: () => void;
} {
  const state = useSignal<RowState>(EMPTY);
  const replace = useRef(() => {});
  const key = JSON.stringify([filters, cursor]);
  // Before the next frame, so that the request does not wait for it.
  useLayoutEffect(() => {
    const { start, stop } = follow(state, filters, cursor);
    replace.current = start;
    start();
    return stop;
  }, [key]);
  return {
    state: state.value,
    showFresh: () => replace.current(),
  };
}

function follow(state: Signal<RowState>, filters: TaskFilters, cursor: string) {
  let isReplacing = true;
  let before: Rows | undefined;
  const poller = new Poller<TaskList>({
    clock: systemClock,
    everyMs: EVERY_MS,
    load: () => {
      const { rows, isStale } = state.peek();
      before = isStale ? undefined : rows;
      const position = cursor === "" ? {} : { cursor };
      return readPage({ ...apiFilter(filters, now()), ...position, limit: PAGE_SIZE });
    },
    onLoaded: (page) => {
      loadPolicies(page.tasks);
      const { rows } = state.peek();
      const isFirst = isReplacing || rows === undefined || before === undefined;
      const next = isFirst ? rowsOf(page.tasks) : mergePage(rows, page.tasks, before as Rows);
      isReplacing = false;
      const older = page.cursor === null ? null : { ...filters, cursor: page.cursor };
      state.value = { rows: next, older, isStale: false, problem: "" };
    },
    onFailed: (error) => {
      const known = state.peek();
      state.value = { ...(known.isStale ? EMPTY : known), problem: problemOf(error) };
    },
  });
  const stopListening = onLive((message) => {
    if (message === "reset") return poller.requestSoon();
    const { rows, isStale } = state.peek();
    if (rows === undefined || isStale) return poller.requestSoon();
    const next = applyEvent(rows, message, filters, cursor === "");
    if (next !== rows) state.value = { ...state.peek(), rows: next };
  });
  const stopFollowing = onFollowing(poller);
  return {
    start: () => {
      isReplacing = true;
      requestOnce(poller);
    },
    stop: () => {
      poller.stop();
      stopListening();
      stopFollowing();
      // The rows stay until the next ones arrive, so that the page does not collapse meanwhile.
      const { rows, older } = state.peek();
      state.value = { rows, older, isStale: rows !== undefined, problem: "" };
    },
  };
}

/** Follows short pages, a few times. */
async function readPage(query: TaskQuery): Promise<TaskList> {
  let { tasks, cursor } = await client.listTasks(query);
  for (let n = 1; n < MAX_REQUESTS && cursor !== null && tasks.length < PAGE_SIZE; n++) {
    const next = await client.listTasks({ ...query, limit: PAGE_SIZE - tasks.length, cursor });
    tasks = [...tasks, ...next.tasks];
    cursor = next.cursor;
  }
  return { tasks, cursor };
}

// Rows: the tasks that a list shows, and how events and new pages change them. Rows never move and
// never disappear while somebody reads them: new tasks are counted until the user asks for them.

interface Rows {
  readonly tasks: readonly TaskView[];
  /** Tasks that match and are not shown yet. */
  readonly fresh: ReadonlySet<string>;
  /** How many events have been applied to each task. Tells old responses from new ones. */
  readonly changes: ReadonlyMap<string, number>;
}

/** More are not counted one by one: the button then says "1,000+". */
export const MAX_FRESH = 1000;

export function rowsOf(tasks: readonly TaskView[]): Rows {
  return { tasks, fresh: new Set(), changes: new Map() };
}

/** Applies an event to the row of its task, or counts the task as new. */
export function applyEvent(
  rows: Rows,
  event: EventView,
  filters: TaskFilters,
  isFirstPage: boolean,
): Rows {
  const { taskId } = event;
  if (taskId === undefined) return rows;
  const index = rows.tasks.findIndex((task) => task.taskId === taskId);
  if (index < 0) {
    const isFresh = isFirstPage && startsToMatch(event, filters);
    return isFresh ? { ...rows, fresh: withFresh(rows.fresh, taskId) } : rows;
  }
  const tasks = rows.tasks.with(index, changedTask(rows.tasks[index] as TaskView, event));
  const changes = new Map(rows.changes).set(taskId, (rows.changes.get(taskId) ?? 0) + 1);
  return { ...rows, tasks, changes };
}

/**
 * Replaces the shown tasks by those of a response, in place. `before` is the state when the request
 * was sent: a row that an event has changed since then is newer than the response.
 */
export function mergePage(rows: Rows, page: readonly TaskView[], before: Rows): Rows {
  const found = new Map(page.map((task) => [task.taskId, task]));
  const tasks = rows.tasks.map((task) => {
    const isNewer = rows.changes.get(task.taskId) !== before.changes.get(task.taskId);
    return isNewer ? task : (found.get(task.taskId) ?? task);
  });
  const shown = new Set(tasks.map(({ taskId }) => taskId));
  // Tasks that move up from the next page are older than a shown one, so they are not new.
  const oldestAt = Math.min(...tasks.map(({ createdAt }) => createdAt));
  let { fresh } = rows;
  for (const { taskId, createdAt } of page) {
    if (!shown.has(taskId) && (tasks.length === 0 || createdAt >= oldestAt)) {
      fresh = withFresh(fresh, taskId);
    }
  }
  return { ...rows, tasks, fresh };
}

function withFresh(fresh: ReadonlySet<string>, taskId: string): ReadonlySet<string> {
  return fresh.size >= MAX_FRESH || fresh.has(taskId) ? fresh : new Set([...fresh, taskId]);
}

const ENDED = new Set(["SUCCEEDED", "EXHAUSTED", "CANCELLED"]);

function changedTask(task: TaskView, event: EventView): TaskView {
  const { attemptNumber = task.attemptNumber, attempt, reason, nextAttemptAt, at } = event;
  const status = (statusAfter(event) ?? task.status) as TaskView["status"];
  const isEnded = ENDED.has(status);
  return {
    ...task,
    status,
    attemptNumber: Math.max(attemptNumber, task.attemptNumber),
    nextAttemptAt: isEnded ? null : (nextAttemptAt ?? task.nextAttemptAt),
    lastStatus: attempt === undefined ? task.lastStatus : attempt.responseStatus,
    reason: isEnded ? (reason ?? task.reason) : task.reason,
    finishedAt: isEnded ? at : task.finishedAt,
  };
}
