/** Redrive set: the dead letters of a selection, for the redrive wizard. */
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import type { RedriveSet } from "../dead-letters/redrive-plan.ts";
import { apiFilter, type TaskFilters } from "../filters/task-filters.ts";
import type { TaskView } from "../service/client.ts";
import type { Selection } from "./selection.ts";

const { maxItems } = REDRIVE_BOUNDS.taskIds;

/**
 * A large frozen set is redriven by its filter, up to the instant at which it was listed: dead letters
 * do not change, so the filter selects no others later. Fewer are redriven by their ids. Undefined if
 * there are too many ids, and the filter selects more than these.
 */
export function redriveSetOf(
  { ids, frozenAt, isWhole }: Selection,
  filters: TaskFilters,
  known: readonly TaskView[],
): RedriveSet | undefined {
  if (ids.size > maxItems) {
    if (frozenAt === undefined || !isWhole) return undefined;
    const { status: _, redriven: __, ...filter } = apiFilter(filters, frozenAt);
    return { title: "everything that matches", filter: { ...filter, finishedTo: frozenAt } };
  }
  const dead = known.filter(({ status }) => status === "EXHAUSTED");
  const taskIds = frozenAt === undefined ? dead.map(({ taskId }) => taskId) : [...ids];
  return { title: "the selected dead letters", taskIds, samples: dead };
}
