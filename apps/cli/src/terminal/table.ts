/**
 * Table: rows in aligned columns, within the width of the terminal. Numbers are aligned right and
 * text left. If the table is too wide, columns that allow it wrap or cut their text. Only a
 * person's terminal cuts: a program that reads the table needs the whole text.
 */
import { type Paint, plainPaint, type Tone, wrap } from "./terminal.ts";

export interface Column {
  readonly head: string;
  /** Default: left. */
  readonly align?: "left" | "right";
  /** The column may get narrower and wrap its text. Default: false. */
  readonly wraps?: boolean;
  /**
   * The column may get narrower and cut its text, with an ellipsis. "first": before other columns do.
   * Default: false.
   */
  readonly cuts?: boolean | "first";
}

/** A text, with or without a color. */
export type Cell = string | { readonly text: string; readonly tone: Tone };

interface TableOptions {
  readonly width: number;
  readonly paint?: Paint;
  /** False: no text is cut, and the table may be wider. Default: true. */
  readonly cuts?: boolean;
}

/** Spaces between two columns. */
const GAP = 2;

/** A column that gets narrower is at least this wide. */
const MIN_FLEXIBLE_WIDTH = 16;

/** A column that is cut before others is at least this wide. */
const MIN_FIRST_WIDTH = 8;

const ELLIPSIS = "…";

export function table(
  allColumns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width, paint = plainPaint, cuts = true }: TableOptions,
): readonly string[] {
  const columns = cuts ? allColumns : allColumns.map((column) => ({ ...column, cuts: false }));
  const widths = fitWidths(columns, rows, width);
  const head = columns.map((column) => ({ text: column.head, tone: "faint" as const }));
  const lines = rows.flatMap((row) => rowLines(columns, widths, row, paint));
  const hasHead = columns.some((column) => column.head !== "");
  return [...(hasHead ? rowLines(columns, widths, head, paint) : []), ...lines];
}

function fitWidths(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  width: number,
): readonly number[] {
  const natural = columns.map(({ head }, index) =>
    Math.max(head.length, ...rows.map((row) => cellText(row[index]).length)),
  );
  const widths = [...natural];
  const total = () => widths.reduce((sum, each) => sum + each + GAP, -GAP);
  for (let over = total() - width; over > 0; over--) {
    const widest = widestFlexible(columns, widths, "first") ?? widestFlexible(columns, widths);
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** Returns the index of the widest column that can still get narrower, of those with `only`. */
function widestFlexible(
  columns: readonly Column[],
  widths: readonly number[],
  only?: "first",
): number | undefined {
  let widest: number | undefined;
  for (const [index, width] of widths.entries()) {
    const { wraps = false, cuts = false } = columns[index] ?? {};
    const isFlexible = only === undefined ? wraps || cuts : cuts === only;
    const least = cuts === "first" ? MIN_FIRST_WIDTH : MIN_FLEXIBLE_WIDTH;
    if (!isFlexible || width <= least) continue;
    if (widest === undefined || width > (widths[widest] ?? 0)) widest = index;
  }
  return widest;
}

function rowLines(
  columns: readonly Column[],
  widths: readonly number[],
  row: readonly Cell[],
  paint: Paint,
): readonly string[] {
  const cells = columns.map(({ wraps = false, cuts = false }, index) => {
    const text = cellText(row[index]);
    const width = widths[index] ?? text.length;
    if (wraps) return wrap(text, width);
    return [cuts && text.length > width ? `${text.slice(0, width - 1)}${ELLIPSIS}` : text];
  });
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, line) =>
    columns
      .map((column, index) => {
        const isLast = index === columns.length - 1;
        const width = isLast && column.align !== "right" ? 0 : (widths[index] ?? 0);
        const padded = pad(cells[index]?.[line] ?? "", width, column.align);
        const cell = row[index];
        return typeof cell === "object" ? paint(cell.tone, padded) : padded;
      })
      .join(" ".repeat(GAP))
      .trimEnd(),
  );
}

function pad(text: string, width: number, align: Column["align"]): string {
  return align === "right" ? text.padStart(width) : text.padEnd(width);
}

function cellText(cell: Cell | undefined): string {
  return typeof cell === "object" ? cell.text : (cell ?? "");
}
