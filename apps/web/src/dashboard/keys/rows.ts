/** Rows: moves the focus between the rows of the table on the page. */

const ROWS = "main tbody tr";

/** The row that contains the element; undefined: none does. */
export function rowOf(element: Element | null): HTMLTableRowElement | undefined {
  return element?.closest<HTMLTableRowElement>(ROWS) ?? undefined;
}

/** Focuses the first link of the next or previous row. False if there is no row. */
export function moveRow(step: 1 | -1): boolean {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>(ROWS)];
  const current = rowOf(document.activeElement);
  const index = current === undefined ? -1 : rows.indexOf(current);
  const next = index < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, index + step));
  const link = rows[next]?.querySelector<HTMLElement>("a, button");
  link?.focus();
  return link !== null && link !== undefined;
}
