/**
 * Task query: the read side of a store. A tenant sees only its own tasks; for it, no others exist.
 *
 * A store examines a limited number of rows per page. A page may therefore be short or even empty
 * although more tasks match: only a null cursor says that the list is complete.
 */
import type { DestinationRow } from "./destination-row.ts";
import type { AttemptLog, RetryTask, TaskStatus } from "./task.ts";

export interface TaskQuery {
  get(tenantId: string, taskId: string): Promise<RetryTask | null>;

  /**
   * Newest first: by task id, descending. Bodies are omitted (null). A task that exists during the
   * whole list and matches is listed exactly once. Rejects with `TOO_MANY_REQUESTS` if the tenant has
   * too many pages in progress.
   */
  list(tenantId: string, filter: TaskFilter, page: Page): Promise<TaskPage>;

  /** The ids of the same tasks in the same order, in pages of up to `MAX_ID_PAGE`. */
  listIds(tenantId: string, filter: TaskFilter, page: Page): Promise<TaskIdPage>;

  /** The tasks of a tenant by status. */
  count(tenantId: string): Promise<TaskCounts>;

  /** How many tasks of a tenant wait or are in flight, for the backlog limit. */
  countTenant(tenantId: string): Promise<number>;

  /**
   * Destinations by name, in pages of at most `limit`. A page may be short, because destinations
   * without a task and without a row are skipped; only a null cursor ends the list.
   */
  destinations(tenantId: string, page: Page): Promise<DestinationPage>;

  /** Null if it has neither a row nor a task. */
  destination(tenantId: string, name: string): Promise<StoredDestinationState | null>;

  countDestinations(tenantId: string): Promise<DestinationCounts>;

  /** Oldest first. The cursor is the number of the last attempt of the previous page. */
  attempts(tenantId: string, taskId: string, page: Page): Promise<AttemptPage>;

  /** Every task of the tenant with its body, oldest first, in pages. */
  export(tenantId: string, page: Page): Promise<TaskPage>;

  /** When the oldest task that has not ended was created; null: none waits or is in flight. */
  oldestOpen(tenantId: string): Promise<number | null>;
}

/** A task must match every given field. Ranges include `...From` and exclude `...To`. */
export interface TaskFilter {
  readonly status?: TaskStatus;
  readonly policyId?: string;
  readonly destination?: string;
  readonly label?: { readonly name: string; readonly value: string };
  readonly idempotencyKey?: string;
  readonly reason?: string;
  readonly lastStatus?: number;
  readonly createdFrom?: number;
  readonly createdTo?: number;
  readonly finishedFrom?: number;
  readonly finishedTo?: number;
  /** Whether the task was redriven, as a new task. */
  readonly redriven?: boolean;
}

export interface Page {
  /** 1 to 250; up to `MAX_ID_PAGE` for ids. */
  readonly limit: number;
  /** The cursor of the previous page; opaque. */
  readonly cursor?: string;
  /** The number of rows that the store may examine for this page. At least 1. Default: 20 000. */
  readonly maxRows?: number;
  /** Once aborted, the store stops reading for this page and rejects with `ReadAbortedError`. */
  readonly signal?: AbortSignal;
}

/** The ids of one page: about 200 kB. */
export const MAX_ID_PAGE = 5000;

/** The default of `maxRows`. */
export const MAX_PAGE_ROWS = 20_000;

export interface TaskPage {
  /** At most `limit`; fewer, also on a page before the last, if `maxRows` were examined. */
  readonly tasks: readonly RetryTask[];
  /** Null on the last page, and only there. */
  readonly cursor: string | null;
}

export interface TaskIdPage {
  /** At most `limit`, like the tasks of a page. */
  readonly taskIds: readonly string[];
  readonly cursor: string | null;
}

export interface AttemptPage {
  readonly attempts: readonly AttemptLog[];
  readonly cursor: string | null;
}

/** Zero counts are omitted. */
export type TaskCounts = Readonly<Partial<Record<TaskStatus, number>>>;

export interface DestinationPage {
  readonly destinations: readonly StoredDestinationState[];
  /** Null on the last page. */
  readonly cursor: string | null;
}

/** What the store knows of a destination. */
export interface StoredDestinationState {
  /** Version 0: no row was written. */
  readonly row: DestinationRow;
  readonly tasks: TaskCounts;
  /** When the first waiting task is due; null: none waits. */
  readonly nextDueAt: number | null;
}

/** The destinations whose row was written, by state. */
export interface DestinationCounts {
  readonly open: number;
  readonly closed: number;
  readonly paused: number;
}
