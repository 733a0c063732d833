/**
 * Codec: converts between cells of SQLite and values of tasks. A table of columns lists each field
 * and its column once; the column list, the cells to write and the positions to read come from it.
 * Rows come as arrays, because naming columns costs more than reading them.
 */
import {
  type Headers,
  LANES,
  type Lane,
  TASK_STATUSES,
  type TaskStatus,
} from "../../../model/task.ts";

/** A value that SQLite stores and returns. */
export type Cell = null | number | string | Uint8Array;

export const PENDING = 0;
export const IN_FLIGHT = 1;
export const SUCCEEDED = 2;
export const CANCELLED = 4;

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusName(number: number): TaskStatus {
  return TASK_STATUSES[number] as TaskStatus;
}

export function laneNumber(lane: Lane): number {
  return LANES.indexOf(lane);
}

export function laneName(number: number): Lane {
  return LANES[number] as Lane;
}

const NO_HEADERS: Headers = Object.freeze({});

export function headersText(headers: Headers): string {
  // biome-ignore lint/suspicious/useGuardForIn: finds out whether there is a header without a list of them
  for (const _ in headers) return JSON.stringify(headers);
  return "{}";
}

export function headersOf(text: string): Headers {
  return text === "{}" ? NO_HEADERS : (JSON.parse(text) as Headers);
}

/** Field to column, in the order of the cells. */
export type Columns = Readonly<Record<string, string>>;

export function columnList(columns: Columns): string {
  return Object.values(columns).join(", ");
}

/** One question mark per column. */
export function placeholders(columns: Columns): string {
  return Object.keys(columns)
    .map(() => "?")
    .join(", ");
}

/** Field to index of its cell. Made by `JSON.parse`: V8 then reads it as fast as a literal. */
export function positionsOf<Table extends Columns>(
  columns: Table,
): Readonly<Record<keyof Table, number>> {
  const entries = Object.keys(columns).map((field, index) => [field, index]);
  return JSON.parse(JSON.stringify(Object.fromEntries(entries)));
}
