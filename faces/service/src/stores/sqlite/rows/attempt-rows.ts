/**
 * Attempt rows: the columns of `attempts`, and the log entries that they hold.
 */
import { type AttemptLog, type Headers, readWaits, waitsText } from "../../../model/task.ts";
import { type Cell, columnList, placeholders, positionsOf } from "./codec.ts";

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
  waits: "waits",
} as const;

const COLUMNS = { ...ATTEMPT, ...PHASES } as const;

export const ATTEMPT_COLUMNS = columnList(COLUMNS);

/** A row of `attempts`, with the key of its task. */
const ATTEMPT_ROW = { ...COLUMNS, ref: "ref" } as const;
const ATTEMPT_CELLS = Object.keys(ATTEMPT_ROW).length;

export const INSERT_ATTEMPT = `INSERT INTO attempts (${columnList(ATTEMPT_ROW)})
  VALUES (${placeholders(ATTEMPT_ROW)})`;

/** For a success on an open connection, which has none of the other columns. */
export const INSERT_PLAIN_SUCCESS = `INSERT INTO attempts (ref, attempt_number, started_at,
  duration_ms, outcome, response_status, response_headers, first_byte_ms)
  VALUES (?, ?, ?, ?, 'success', ?, ?, ?)`;

/** May the success be inserted with `INSERT_PLAIN_SUCCESS`? */
export function isPlainSuccess(log: AttemptLog): boolean {
  const { phases } = log;
  if (log.outcome !== "success" || log.errorClass !== null || log.errorMessage !== null)
    return false;
  if (log.responseBody !== null || log.waits.length > 0) return false;
  if (log.nextDelayMs !== null || log.delaySource !== null || phases === null) return false;
  return phases.dnsMs === null && phases.connectMs === null && phases.tlsMs === null;
}

export function responseHeadersText(headers: Headers | null): string | null {
  return headers === null ? null : JSON.stringify(headers);
}

const attemptPositions = positionsOf(ATTEMPT_ROW);

/** The cells of a new row of `attempts`. */
export function attemptCells(ref: number, log: AttemptLog): Cell[] {
  const at = attemptPositions;
  const { phases } = log;
  const cells = new Array<Cell>(ATTEMPT_CELLS);
  cells[at.ref] = ref;
  cells[at.attemptNumber] = log.attemptNumber;
  cells[at.startedAt] = log.startedAt;
  cells[at.durationMs] = log.durationMs;
  cells[at.outcome] = log.outcome;
  cells[at.responseStatus] = log.responseStatus;
  cells[at.errorClass] = log.errorClass;
  cells[at.errorMessage] = log.errorMessage;
  cells[at.nextDelayMs] = log.nextDelayMs;
  cells[at.delaySource] = log.delaySource;
  cells[at.responseHeaders] = responseHeadersText(log.responseHeaders);
  cells[at.responseBody] = log.responseBody;
  cells[at.waits] = waitsText(log.waits);
  cells[at.dnsMs] = phases?.dnsMs ?? null;
  cells[at.connectMs] = phases?.connectMs ?? null;
  cells[at.tlsMs] = phases?.tlsMs ?? null;
  cells[at.firstByteMs] = phases?.firstByteMs ?? null;
  return cells;
}

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
    waits: readWaits(cells[at.waits] as string | null),
  };
}

function phasesOf(cells: readonly Cell[]): AttemptLog["phases"] {
  const at = attemptPositions;
  const fields = Object.keys(PHASES) as readonly (keyof typeof PHASES)[];
  if (fields.every((field) => cells[at[field]] === null)) return null;
  return {
    dnsMs: cells[at.dnsMs] as number | null,
    connectMs: cells[at.connectMs] as number | null,
    tlsMs: cells[at.tlsMs] as number | null,
    firstByteMs: cells[at.firstByteMs] as number | null,
  };
}
