/** Use rows: a hook that reads one page of tasks and keeps its rows current. */
import { type Signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { useLayoutEffect, useRef } from "preact/hooks";
import { apiFilter, PAGE_SIZE, type TaskFilters } from "../filters/task-filters.ts";
import type { Query } from "../routing/route.ts";
import { client, now, problemOf, type TaskList, type TaskQuery } from "../service/client.ts";
import { onFollowing, onLive, requestOnce } from "../service/live.ts";
import { Poller } from "../service/poller.ts";
import { applyEvent, mergePage, type Rows, rowsOf } from "./rows.ts";
import { loadPolicies } from "./task-policies.ts";

/** Events are faster; this finds what other nodes of a fleet did. */
const EVERY_MS = 10_000;

/** Requests for one page. A filter that hardly any task matches gives short pages. */
const MAX_REQUESTS = 5;

export interface RowState {
  /** Undefined until the first response. */
  readonly rows: Rows | undefined;
  /** The address of the next page of these rows; null: this is the last. */
  readonly older: Query | null;
  /** The rows are those of the previous page or filter: the response is still missing. */
  readonly isStale: boolean;
  readonly problem: string;
}

const EMPTY: RowState = { rows: undefined, older: null, isStale: false, problem: "" };

/** Returns the rows, and a function that shows the new tasks. */
export function useRows(
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
