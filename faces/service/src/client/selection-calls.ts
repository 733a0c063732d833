/** Selection calls: the part of the client for filters, and for operations on many tasks. */
import type { Discarded } from "../schemas/operation-schemas.ts";
import type {
  CountQuery,
  CountView,
  IdList,
  IdQuery,
  ManyResult,
  SuggestionList,
  SuggestionQuery,
} from "../schemas/selection-schemas.ts";
import type { Transport } from "./transport.ts";

export interface SelectionCalls {
  /** Exact, unless `complete` is false. */
  countTasks(filter?: CountQuery): Promise<CountView>;
  /** One page of ids, which may be short. Only a null cursor ends the list. */
  listTaskIds(query?: IdQuery): Promise<IdList>;
  /** Values of a field, for people who write a filter. */
  suggestValues(query: SuggestionQuery): Promise<SuggestionList>;
  /** At most 1000 tasks. Each is canceled separately. */
  cancelTasks(taskIds: readonly string[]): Promise<ManyResult>;
  /** At most 1000 tasks. Each is retried separately. */
  retryTasksNow(taskIds: readonly string[]): Promise<ManyResult>;
  /** Removes them permanently. At most 1000 ids; those of other tasks are ignored. */
  discardTasks(taskIds: readonly string[]): Promise<Discarded>;
}

export function selectionCalls({ request }: Transport): SelectionCalls {
  const root = "retry-tasks";
  const read = <T>(
    name: string,
    query: CountQuery | IdQuery | SuggestionQuery,
    field: keyof T & string,
  ) => request<T>({ method: "GET", path: [root, name], query }, field);
  const change = <T>(
    path: readonly string[],
    taskIds: readonly string[],
    field: keyof T & string,
  ) => request<T>({ method: "POST", path, body: { taskIds } }, field);
  return {
    countTasks: (query = {}) => read("count", query, "count"),
    listTaskIds: (query = {}) => read("ids", query, "taskIds"),
    suggestValues: (query) => read("suggestions", query, "suggestions"),
    cancelTasks: (taskIds) => change([root, "cancel"], taskIds, "done"),
    retryTasksNow: (taskIds) => change([root, "retry"], taskIds, "done"),
    discardTasks: (taskIds) => change(["dead-letters", "discard"], taskIds, "discarded"),
  };
}
