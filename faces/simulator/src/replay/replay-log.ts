/**
 * Replay log: parses the log of a service. A line is an attempt, or a task with its attempts as
 * `redrive tasks export` writes it. For any other line the error names the line number.
 */
import {
  causedError,
  ERROR_CLASSES,
  type ErrorClass,
  type Hint,
  isObject,
  type Outcome,
  parsePushback,
  parseRetryAfter,
  quote,
  RedriveError,
  recordedOutcome,
  SUCCESS,
} from "@redrive/core";

/** One line of the log: the fields of the service's attempt log that replay reads. */
export interface LoggedAttempt {
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** `succeeded`, or anything else for a failure. */
  readonly outcome?: string;
  readonly responseStatus?: number | null;
  readonly errorClass?: string | null;
  /** `retry-after`, `date` and `grpc-retry-pushback-ms` are read. */
  readonly responseHeaders?: Readonly<Record<string, string>> | null;
  readonly destination?: string;
  /**
   * If false, an attempt that may have arrived is not repeated. Default: true, as for every task.
   */
  readonly idempotent?: boolean;
  /** The task has not ended, so its result is unknown. Default: false. */
  readonly isOpen?: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * All attempts of a log in order of time. The log has one JSON object per line; empty lines are
 * skipped.
 */
export function parseLog(ndjson: string): LoggedAttempt[] {
  const log: LoggedAttempt[] = [];
  for (const [index, line] of ndjson.split("\n").entries()) {
    if (line.trim() !== "") log.push(...parseLine(line, index + 1));
  }
  return log.sort((a, b) => a.startedAt - b.startedAt || a.attemptNumber - b.attemptNumber);
}

function parseLine(line: string, number: number): readonly LoggedAttempt[] {
  const value = parseJson(line, number);
  if (!isObject(value)) throw refused(number, "an attempt with fields", value);
  const { task, attempts } = value;
  if (!isObject(task) || !Array.isArray(attempts)) return [attemptOf(value, number)];
  const { taskId, destination, idempotent, status } = task;
  const isOpen = status === "PENDING" || status === "IN_FLIGHT";
  return attempts.map((attempt: unknown) =>
    attemptOf({ ...(attempt as Fields), taskId, destination, idempotent, isOpen }, number),
  );
}

function parseJson(line: string, number: number): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    const text = `line ${number} must be JSON, got ${quote(line)}`;
    throw causedError("INVALID_ARGUMENT", text, cause);
  }
}

function refused(number: number, wanted: string, value: unknown): RedriveError {
  const text = `line ${number} must be ${wanted}, got ${quote(value)}`;
  return new RedriveError("INVALID_ARGUMENT", text);
}

const NUMBERS = ["attemptNumber", "startedAt", "durationMs"] as const;

function attemptOf(value: Fields, number: number): LoggedAttempt {
  if (typeof value["taskId"] !== "string") throw refused(number, "an attempt with taskId", value);
  for (const name of NUMBERS) {
    const given = value[name];
    if (typeof given !== "number") throw refused(number, `an attempt with ${name}`, value);
    if (!(given >= 0)) throw refused(number, `an attempt with ${name} of 0 or more`, given);
  }
  return value as Fields & LoggedAttempt;
}

export function isSuccess({ outcome, responseStatus }: LoggedAttempt): boolean {
  if (outcome !== undefined) return /^succe/i.test(outcome);
  return typeof responseStatus === "number" && responseStatus >= 200 && responseStatus <= 299;
}

/** The outcome of an attempt for `decide`, including its Retry-After. */
export function outcomeOf(attempt: LoggedAttempt): Outcome {
  if (isSuccess(attempt)) return SUCCESS;
  const { responseStatus, errorClass, outcome } = attempt;
  if (typeof responseStatus === "number") {
    return { ...recordedOutcome(responseStatus), ...hintOf(attempt) };
  }
  if (outcome === "abandoned") return { kind: "abandoned" };
  const known = ERROR_CLASSES.find((name) => name === errorClass) as ErrorClass | undefined;
  return known === undefined
    ? { kind: "thrown" }
    : { kind: "error", errorClass: known, sent: true };
}

function hintOf({ responseHeaders, startedAt, durationMs }: LoggedAttempt): Hint {
  const { "retry-after": hint, "grpc-retry-pushback-ms": pushback, date } = responseHeaders ?? {};
  const asked = parsePushback(pushback) ?? parseRetryAfter(hint, startedAt + durationMs, date);
  if (asked === "refused") return { refused: true };
  return asked === undefined ? {} : { retryAfterMs: asked };
}
