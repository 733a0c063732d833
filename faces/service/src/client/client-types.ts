/** Client types: the arguments and results of the client that are not in the schemas of the API. */
import type { TaskInput } from "../intake/task-input.ts";
import type { TaskReceipt, TaskView } from "../schemas/task-schemas.ts";

/** A task as the HTTP API takes it. Send bytes as `bodyBase64`. */
export type TaskToCreate = Omit<TaskInput, "body"> & { readonly body?: string };

/**
 * The response to a create. It holds all fields of the task if the task was known or waited for.
 */
export type CreatedTask = TaskReceipt & Partial<TaskView> & { readonly replayed: boolean };

export type Include = "body" | "explain";

export interface AttemptQuery {
  readonly limit?: number;
  readonly cursor?: string;
  readonly include?: "body";
}
