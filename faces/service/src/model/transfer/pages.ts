/**
 * Pages: what stores with SQL share to read their rows in pages. A cursor is the position of the last row
 * of a page.
 */
import { positionOf } from "./compare.ts";
import type { TransferKind, TransferPage, TransferRows } from "./transfer.ts";

type Position = readonly (string | number)[];

/** The first position of each kind. Attempts begin with a task, which they include. */
const FIRST: Readonly<Record<TransferKind, Position>> = {
  policy: ["", "", 0],
  destination: ["", ""],
  document: ["", "", ""],
  task: ["", ""],
  attempt: ["", "", 0],
  key: ["", ""],
};

/** Reads the rows after a position. */
export type ReadPage<Kind extends TransferKind> = (
  after: Position,
  limit: number,
) => Promise<TransferPage<Kind>>;

export type ReadPages = { readonly [Kind in TransferKind]: ReadPage<Kind> };

/** The position at which a page begins. */
export function startOf(kind: TransferKind, cursor: string | undefined): Position {
  return cursor === undefined ? FIRST[kind] : (JSON.parse(cursor) as Position);
}

/** A full page has a cursor, because more rows may follow. */
export function pageOf<Kind extends TransferKind>(
  kind: Kind,
  rows: readonly TransferRows[Kind][],
  limit: number,
): TransferPage<Kind> {
  const last = rows.length < limit ? undefined : rows.at(-1);
  return { rows, cursor: last === undefined ? null : JSON.stringify(positionOf(kind, last)) };
}
