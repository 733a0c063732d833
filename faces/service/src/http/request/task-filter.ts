/** Task filter: the fields of a query as the filter that a store understands. */
import type { TaskFilter } from "../../model/task-query.ts";
import type { DeadFilterFields, ListQuery } from "../../schemas/task-schemas.ts";

/** Pages are another matter, and left out. */
export function toTaskFilter(query: DeadFilterFields & Pick<ListQuery, "status">): TaskFilter {
  const { status, label, policyId, destination, idempotencyKey, reason, lastStatus } = query;
  const { createdFrom, createdTo, finishedFrom, finishedTo } = query;
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
    label: label === undefined ? undefined : labelOf(label),
  };
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as TaskFilter;
}

/** The schema has seen to it that there is a `=`, and no name has one. */
function labelOf(text: string): NonNullable<TaskFilter["label"]> {
  const equals = text.indexOf("=");
  return { name: text.slice(0, equals), value: text.slice(equals + 1) };
}
