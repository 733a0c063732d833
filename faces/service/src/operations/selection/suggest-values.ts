/** Suggest values: which values of a field the newest tasks have, for people who write a filter. */
import type { RetryTask } from "../../model/task.ts";
import type { Page, TaskFilter, TaskPage } from "../../model/task-query.ts";

/** Values of tasks that a filter can select. */
export const SUGGESTED_FIELDS = [
  "destination",
  "policyId",
  "label",
  "reason",
  "lastStatus",
  "idempotencyKey",
] as const;
export type SuggestedField = (typeof SUGGESTED_FIELDS)[number];

export interface Suggestion {
  readonly value: string;
  /** Tasks with this value, among those that were examined. */
  readonly count: number;
}

const PAGE = 250;
const SAMPLE_PAGES = 4;
const SAMPLE_ROWS = 5000;
const MAX_SUGGESTIONS = 12;

/** The most frequent values among the newest tasks that match the filter and contain the text. */
export async function suggestValues(
  list: (filter: TaskFilter, page: Page) => Promise<TaskPage>,
  field: SuggestedField,
  text: string,
  filter: TaskFilter,
): Promise<readonly Suggestion[]> {
  const counts = new Map<string, number>();
  let cursor: string | null | undefined;
  for (let pages = 0; cursor !== null && pages < SAMPLE_PAGES; pages++) {
    const page = { limit: PAGE, maxRows: SAMPLE_ROWS, ...(cursor !== undefined && { cursor }) };
    const found: TaskPage = await list(filter, page);
    for (const value of found.tasks.flatMap((task) => valuesOf(task, field))) {
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    cursor = found.cursor;
  }
  const found = [...counts].map(([value, count]) => ({ value, count }));
  return bestOf(found, text);
}

function valuesOf(task: RetryTask, field: SuggestedField): readonly string[] {
  if (field === "label") {
    return Object.entries(task.labels).map(([name, value]) => `${name}=${value}`);
  }
  const value = task[field];
  return value === null ? [] : [String(value)];
}

/** Those that begin with the text first, then the most frequent. */
export function bestOf(found: readonly Suggestion[], text: string): readonly Suggestion[] {
  const wanted = text.toLowerCase();
  const begins = ({ value }: Suggestion) => value.toLowerCase().startsWith(wanted);
  return found
    .filter(({ value }) => value.toLowerCase().includes(wanted))
    .sort(
      (one, other) =>
        Number(begins(other)) - Number(begins(one)) ||
        other.count - one.count ||
        (one.value < other.value ? -1 : 1),
    )
    .slice(0, MAX_SUGGESTIONS);
}
