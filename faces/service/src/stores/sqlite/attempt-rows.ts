/**
 * Attempt rows: the columns of `attempts`, and the log entries that they hold.
 */
import type { AttemptLog, Headers } from "../../model/task.ts";
import { type Cell, cellOf, columnList, placeholders, positionsOf } from "./codec.ts";

const PHASES = {
  dnsMs: "dns_ms",
  connectMs: "connect_ms",
  tlsMs: "tls_ms",
  firstByteMs: "first_byte_ms",
} as const;

const ATTEMPT = {
  attemptNumber: "attempt_number",
  startedAt: "started_at",
  durationMs: "duration_ms",
  outcome: "outcome",
  responseStatus: "response_status",
  errorClass: "error_class",
  errorMessage: "error_message",
  nextDelayMs: "next_delay_ms",
  delaySource: "delay_source",
  responseHeaders: "response_headers",
  responseBody: "response_body",
} as const;

const ATTEMPT_ROW = { ...ATTEMPT, ...PHASES } as const;
const ATTEMPT_FIELDS = Object.keys(ATTEMPT) as readonly (keyof typeof ATTEMPT)[];
const PHASE_FIELDS = Object.keys(PHASES) as readonly (keyof typeof PHASES)[];

export const ATTEMPT_COLUMNS = columnList(ATTEMPT_ROW);

export const INSERT_ATTEMPT = `INSERT INTO attempts (ref, ${ATTEMPT_COLUMNS})
  VALUES (?, ${placeholders(ATTEMPT_ROW)})`;

/** The cells of a new row of `attempts`. */
export function attemptCells(ref: number, log: AttemptLog): Cell[] {
  const { phases } = log;
  const cells: Cell[] = [ref];
  for (const field of ATTEMPT_FIELDS) cells.push(cellOf(log[field]));
  for (const field of PHASE_FIELDS) cells.push(phases?.[field] ?? null);
  return cells;
}

const attemptPositions = positionsOf(ATTEMPT_ROW);

export function attemptOf(cells: readonly Cell[]): AttemptLog {
  const at = attemptPositions;
  const headers = cells[at.responseHeaders] as string | null;
  return {
    attemptNumber: cells[at.attemptNumber] as number,
    startedAt: cells[at.startedAt] as number,
    durationMs: cells[at.durationMs] as number,
    phases: phasesOf(cells),
    outcome: cells[at.outcome] as string,
    responseStatus: cells[at.responseStatus] as number | null,
    errorClass: cells[at.errorClass] as string | null,
    errorMessage: cells[at.errorMessage] as string | null,
    nextDelayMs: cells[at.nextDelayMs] as number | null,
    delaySource: cells[at.delaySource] as string | null,
    responseHeaders: headers === null ? null : (JSON.parse(headers) as Headers),
    responseBody: cells[at.responseBody] as Uint8Array | null,
  };
}

function phasesOf(cells: readonly Cell[]): AttemptLog["phases"] {
  const at = attemptPositions;
  if (PHASE_FIELDS.every((field) => cells[at[field]] === null)) return null;
  return {
    dnsMs: cells[at.dnsMs] as number | null,
    connectMs: cells[at.connectMs] as number | null,
    tlsMs: cells[at.tlsMs] as number | null,
    firstByteMs: cells[at.firstByteMs] as number | null,
  };
}
