/**
 * Task query: the read side of a store. A tenant sees only its own tasks; for it, no others exist.
 */
import type { AttemptLog, RetryTask, TaskStatus } from "./task.ts";

export interface TaskQuery {
  get(tenantId: string, taskId: string): Promise<RetryTask | null>;

  /** Newest first. Bodies are omitted (null). */
  list(tenantId: string, filter: TaskFilter, page: Page): Promise<TaskPage>;

  /** Per destination and status. Zero counts are omitted. */
  count(tenantId: string): Promise<readonly TaskCount[]>;

  /** Oldest first. */
  attempts(tenantId: string, taskId: string, page: Page): Promise<AttemptPage>;

  /** Every task of the tenant with its body, oldest first, in pages. */
  export(tenantId: string, page: Page): Promise<TaskPage>;
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
}

export interface Page {
  /** 1 to 250. */
  readonly limit: number;
  /** The cursor of the previous page; opaque. */
  readonly cursor?: string;
}

export interface TaskPage {
  readonly tasks: readonly RetryTask[];
  /** Null on the last page. */
  readonly cursor: string | null;
}

export interface AttemptPage {
  readonly attempts: readonly AttemptLog[];
  readonly cursor: string | null;
}

export interface TaskCount {
  readonly destination: string;
  readonly status: TaskStatus;
  readonly count: number;
}
