/**
 * Selection: the tasks that an action will affect, always as a list of ids. "Everything that matches"
 * is listed once and then frozen, so that a task that matches later is never affected.
 */
import type { ApiFilter } from "../filters/task-filters.ts";

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
const PAGE = 5000;

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
    const page = await list({ ...filter, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    for (const id of page.taskIds) if (ids.size < MAX_SELECTED) ids.add(id);
    cursor = page.cursor;
    if (!onProgress(ids.size)) return undefined;
  }
  return { ids, frozenAt: now, isComplete: cursor === null, isWhole: cursor === null };
}
