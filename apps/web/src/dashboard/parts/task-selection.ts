/**
 * Task selection: which tasks the list shows, as in the address and as in the query of the API, and
 * which of them are selected.
 */
import type { EventView, TaskQuery } from "./client.ts";
import type { Query } from "./link.tsx";

/** The fields of the address, in the order of the form. */
export const filterNames = [
  "status",
  "destination",
  "label",
  "reason",
  "lastStatus",
  "policy",
  "key",
  "age",
  "redriven",
  "createdFrom",
  "createdTo",
] as const;
export type FilterName = (typeof filterNames)[number];
export type TaskFilters = Readonly<Record<FilterName, string>>;

export const statuses = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;

/** Created within this time. */
export const ages: Readonly<Record<string, { readonly label: string; readonly ms: number }>> = {
  "15m": { label: "last 15 min", ms: 900_000 },
  "1h": { label: "last hour", ms: 3_600_000 },
  "24h": { label: "last 24 h", ms: 86_400_000 },
  "7d": { label: "last 7 d", ms: 7 * 86_400_000 },
};

/** Rows of a page. */
export const PAGE_SIZE = 50;

/** The filters of an address. Other fields, such as the cursor, are left out. */
export function filtersOf(query: Query): TaskFilters {
  const entries = filterNames.map((name) => [name, query[name] ?? ""]);
  return Object.fromEntries(entries) as TaskFilters;
}

export function isFiltered(filters: TaskFilters): boolean {
  return filterNames.some((name) => filters[name] !== "");
}

/** The service has these counts; for other filters it examines tasks. */
const COUNTED: readonly FilterName[] = ["status", "destination"];

export function isCounted(filters: TaskFilters): boolean {
  return filterNames.every((name) => filters[name] === "" || COUNTED.includes(name));
}

/** What is wrong with the filters, or "". The API refuses them with a less helpful message. */
export function filterProblem(filters: TaskFilters): string {
  const { status, label, lastStatus, age, redriven, createdFrom, createdTo } = filters;
  if (status !== "" && !(statuses as readonly string[]).includes(status)) {
    return `The status must be one of ${statuses.join(", ")}, got "${status}".`;
  }
  if (label !== "" && !/^[\w.:/-]{1,64}=/u.test(label)) {
    return `The label must have the form name=value, got "${label}".`;
  }
  if (lastStatus !== "" && !/^([1-9]\d\d|\d|1[0-6])$/u.test(lastStatus)) {
    return `The last response must be a status code such as 503, or 0 to 16 for gRPC and brokers, got "${lastStatus}".`;
  }
  if (age !== "" && ages[age] === undefined) {
    return `The age must be one of ${Object.keys(ages).join(", ")}, got "${age}".`;
  }
  if (!["", "true", "false"].includes(redriven)) {
    return `redriven must be true or false, got "${redriven}".`;
  }
  const wrong = [createdFrom, createdTo].find((at) => !/^\d{0,15}$/u.test(at));
  if (wrong !== undefined) return `An instant must be in epoch milliseconds, got "${wrong}".`;
  return "";
}

/** The filter of the API, for filters without a problem. An age is relative to `now`. */
type ApiFilter = Omit<TaskQuery, "limit" | "cursor">;

export function apiFilter(filters: TaskFilters, now: number): ApiFilter {
  const { status, destination, label, key, reason, lastStatus, policy, age, redriven } = filters;
  const texts = { status, destination, label, reason, policyId: policy, idempotencyKey: key };
  const given = Object.entries(texts).filter(([, value]) => value !== "");
  const from = Math.max(Number(filters.createdFrom), now - (ages[age]?.ms ?? now));
  return {
    ...(Object.fromEntries(given) as ApiFilter),
    ...(lastStatus !== "" && { lastStatus: Number(lastStatus) }),
    ...(redriven !== "" && { redriven: redriven === "true" }),
    ...(from > 0 && { createdFrom: from }),
    ...(filters.createdTo !== "" && { createdTo: Number(filters.createdTo) }),
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
  const { status, destination, label, key, reason, lastStatus, policy, redriven } = filters;
  if (key !== "" || lastStatus !== "" || redriven === "true" || filters.createdTo !== "") {
    return false;
  }
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

// Selection: the tasks that an action will affect, always as a list of ids. "Everything that
// matches" is listed once and then frozen, so that a task that matches later is never affected.

export interface Selection {
  readonly ids: ReadonlySet<string>;
  /** When everything that matched was listed; undefined: the user selected rows. */
  readonly frozenAt: number | undefined;
  /** False: more tasks match than can be selected at once. */
  readonly isComplete: boolean;
  /** False: rows of a frozen set were deselected, so the filter selects more. */
  readonly isWhole: boolean;
}

export const NOTHING: Selection = {
  ids: new Set(),
  frozenAt: undefined,
  isComplete: true,
  isWhole: true,
};

/** Selects or deselects rows. A frozen set stays frozen when it shrinks. */
export function withRows(
  selection: Selection,
  ids: readonly string[],
  isSelected: boolean,
): Selection {
  const next = new Set(selection.ids);
  for (const id of ids) {
    if (isSelected) next.add(id);
    else next.delete(id);
  }
  const { frozenAt } = selection;
  if (frozenAt === undefined || isSelected || next.size === 0) return { ...NOTHING, ids: next };
  return { ...selection, ids: next, isWhole: false };
}

/** Ids that can be selected at once: four megabytes. */
export const MAX_SELECTED = 100_000;
const IDS_PAGE = 5000;

export type ListIds = (
  query: ApiFilter & { limit: number; cursor?: string },
) => Promise<{ readonly taskIds: readonly string[]; readonly cursor: string | null }>;

/** Lists everything that matches now. `onProgress` gets the number so far; false ends the list. */
export async function freeze(
  list: ListIds,
  filter: ApiFilter,
  now: number,
  onProgress: (count: number) => boolean,
): Promise<Selection | undefined> {
  const ids = new Set<string>();
  let cursor: string | null | undefined;
  while (cursor !== null && ids.size < MAX_SELECTED) {
    const page = await list({
      ...filter,
      limit: IDS_PAGE,
      ...(cursor !== undefined && { cursor }),
    });
    for (const id of page.taskIds) if (ids.size < MAX_SELECTED) ids.add(id);
    cursor = page.cursor;
    if (!onProgress(ids.size)) return undefined;
  }
  return { ids, frozenAt: now, isComplete: cursor === null, isWhole: cursor === null };
}
