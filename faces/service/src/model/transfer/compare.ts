/**
 * Compare: compares rows that are moved with those that a store has. Two rows are equal if their JSON is,
 * so the comparison and the exported file never disagree.
 */
import { encodeRow } from "./rows.ts";
import type { TransferKind, TransferRows, WriteResult } from "./transfer.ts";

/** What identifies a row among those of its kind. */
export function positionOf<Kind extends TransferKind>(
  kind: Kind,
  row: TransferRows[Kind],
): readonly (string | number)[] {
  return POSITIONS[kind](row as never);
}

const POSITIONS: {
  readonly [Kind in TransferKind]: (row: TransferRows[Kind]) => readonly (string | number)[];
} = {
  policy: ({ tenantId, policyId, version }) => [tenantId, policyId, version],
  destination: (row) => [row.tenantId, row.name],
  document: (row) => [row.kind, row.tenantId, row.id],
  task: ({ tenantId, taskId }) => [tenantId, taskId],
  attempt: ({ tenantId, taskId, attemptNumber }) => [tenantId, taskId, attemptNumber],
  key: ({ tenantId, idempotencyKey }) => [tenantId, idempotencyKey],
};

/** The key of a stored row belongs to something else, so a new row cannot take its place. */
export const TAKEN = "taken";

export type Stored<Row> = Row | typeof TAKEN | null;

/** Compares rows with those that are stored at their positions; null: none is. */
export function compareRows<Kind extends TransferKind>(
  kind: Kind,
  rows: readonly TransferRows[Kind][],
  stored: readonly Stored<TransferRows[Kind]>[],
): readonly WriteResult[] {
  const textOf = (row: TransferRows[Kind]) => JSON.stringify(encodeRow(kind, row));
  const added = new Map<string, string>();
  return rows.map((row, at) => {
    const position = JSON.stringify(positionOf(kind, row));
    const found = stored[at] ?? null;
    if (found === TAKEN) return "different";
    // A row may be given twice.
    const known = found === null ? added.get(position) : textOf(found);
    if (known !== undefined) return known === textOf(row) ? "same" : "different";
    added.set(position, textOf(row));
    return "added";
  });
}

/** The rows that are to be added. */
export function addedRows<Row>(
  rows: readonly Row[],
  results: readonly WriteResult[],
): readonly Row[] {
  return rows.filter((_, at) => results[at] === "added");
}
