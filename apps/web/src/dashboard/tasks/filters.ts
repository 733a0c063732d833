/** Filters: which tasks the list shows, as in the address and as in the query of the API. */
import type { Query } from "../routing/route.ts";
import type { EventView, TaskQuery } from "../service/client.ts";

/** The fields of the address, in the order of the form. */
export const filterNames = [
  "status",
  "destination",
  "label",
  "key",
  "reason",
  "lastStatus",
  "policy",
] as const;
export type FilterName = (typeof filterNames)[number];
export type TaskFilters = Readonly<Record<FilterName, string>>;

export const statuses = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;

/** Rows of a page. */
export const PAGE_SIZE = 50;

/** The filters of an address. Other fields, such as the cursor, are left out. */
export function filtersOf(query: Query): TaskFilters {
  const entries = filterNames.map((name) => [name, query[name] ?? ""]);
  return Object.fromEntries(entries) as TaskFilters;
}

/** What is wrong with the filters, or "". The API refuses them with a less helpful message. */
export function filterProblem({ status, label, lastStatus }: TaskFilters): string {
  if (status !== "" && !(statuses as readonly string[]).includes(status)) {
    return `The status must be one of ${statuses.join(", ")}, got "${status}".`;
  }
  if (label !== "" && !/^[\w.:/-]{1,64}=/u.test(label)) {
    return `The label must have the form name=value, got "${label}".`;
  }
  if (lastStatus !== "" && !/^([1-9]\d\d|\d|1[0-6])$/u.test(lastStatus)) {
    return `The last response must be a status code such as 503, or 0 to 16 for gRPC, got "${lastStatus}".`;
  }
  return "";
}

/** The query of the API for filters without a problem. */
export function apiQuery(filters: TaskFilters, cursor: string): TaskQuery {
  const { status, destination, label, key, reason, lastStatus, policy } = filters;
  const fields = { status, destination, label, reason, policyId: policy, idempotencyKey: key };
  const given = Object.entries({ ...fields, cursor }).filter(([, value]) => value !== "");
  return {
    ...(Object.fromEntries(given) as TaskQuery),
    ...(lastStatus !== "" && { lastStatus: Number(lastStatus) }),
    limit: PAGE_SIZE,
  };
}

const STATUS_AFTER: Readonly<Record<string, string>> = {
  "task.created": "PENDING",
  "task.succeeded": "SUCCEEDED",
  "task.exhausted": "EXHAUSTED",
  "task.cancelled": "CANCELLED",
  "attempt.started": "IN_FLIGHT",
  "attempt.failed": "PENDING",
  "attempt.abandoned": "PENDING",
};

/** The status of the task after an event, if the event changes it. */
export function statusAfter({ type }: EventView): string | undefined {
  return STATUS_AFTER[type];
}

/**
 * Whether a task that is not in the list belongs to it since this event. An event has no idempotency
 * key, so a list with such a filter is only polled.
 */
export function startsToMatch(event: EventView, filters: TaskFilters): boolean {
  const { status, destination, label, key, reason, lastStatus, policy } = filters;
  if (key !== "" || lastStatus !== "") return false;
  const isNew = status === "" ? event.type === "task.created" : statusAfter(event) === status;
  return (
    isNew &&
    (destination === "" || event.destination === destination) &&
    (policy === "" || event.policyId === policy) &&
    (reason === "" || event.reason === reason) &&
    (label === "" || hasLabel(event, label))
  );
}

function hasLabel({ labels = {} }: EventView, label: string): boolean {
  const at = label.indexOf("=");
  return labels[label.slice(0, at)] === label.slice(at + 1);
}
