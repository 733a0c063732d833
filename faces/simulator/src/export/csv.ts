/** CSV: formats rows by RFC 4180, for spreadsheets and programs. */

export type CsvRow = readonly (string | number | undefined)[];

export function csv(rows: readonly CsvRow[]): string {
  return rows.map((row) => `${row.map(fieldOf).join(",")}\n`).join("");
}

function fieldOf(value: string | number | undefined): string {
  const text = value === undefined ? "" : String(value);
  return /[",\r\n]/u.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
