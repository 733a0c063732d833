/** Task filter: converts the fields of a query to the filter of a store. */
import type { TaskFilter } from "../../model/task-query.ts";
import type { DeadFilterFields, ListQuery } from "../../schemas/task-schemas.ts";

/** Ignores the fields for paging. */
export function toTaskFilter(query: DeadFilterFields & Pick<ListQuery, "status">): TaskFilter {
  const { status, label, policyId, destination, idempotencyKey, reason, lastStatus } = query;
  const { createdFrom, createdTo, finishedFrom, finishedTo, redriven } = query;
  const filter = {
    status,
    policyId,
    destination,
    idempotencyKey,
    reason,
    lastStatus,
    createdFrom,
    createdTo,
    finishedFrom,
    finishedTo,
    redriven,
    label: label === undefined ? undefined : labelOf(label),
  };
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as TaskFilter;
}

/** The schema guarantees a `=`, and names cannot contain one. */
function labelOf(text: string): NonNullable<TaskFilter["label"]> {
  const equals = text.indexOf("=");
  return { name: text.slice(0, equals), value: text.slice(equals + 1) };
}
