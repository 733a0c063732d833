/** Cursors: positions of several texts, for callers to whom a cursor is opaque. */
import type { Cell } from "../connection/cells.ts";

export function cursorText(cells: readonly Cell[]): string {
  return JSON.stringify(cells);
}

/** Empty at the beginning. */
export function cursorTexts(cursor: string | undefined): readonly string[] {
  return cursor === undefined ? [] : (JSON.parse(cursor) as readonly string[]);
}
