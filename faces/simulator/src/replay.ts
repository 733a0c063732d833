/**
 * Replay: reads the attempt log of a service and simulates the same outage under another policy. An
 * attempt of the other policy gets the outcome of the nearest logged attempt of the same
 * destination. An attempt that is far from any logged one gets a guessed outcome, and the guesses
 * are counted.
 */
import {
  causedError,
  decide,
  ERROR_CLASSES,
  type ErrorClass,
  type Hint,
  headerHint,
  isObject,
  OPEN_GATES,
  type Outcome,
  type PolicyDocument,
  type PresetName,
  quote,
  RedriveError,
  recordedOutcome,
  SUCCESS,
  seededRandom,
} from "@redrive/core";
import { policyOf } from "./schedule/waits.ts";
import { MAX_BINS } from "./worlds/tally.ts";

/** The result of a set of tasks. */
export interface ReplayResult {
  readonly attempts: number;
  readonly succeeded: number;
  readonly exhausted: number;
  /** Tasks that had not ended when the log was exported. A replayed task always ends. */
  readonly unfinished: number;
  /**
   * Time from the first attempt of a task to its success: mean and 99th percentile of the tasks
   * that succeeded.
   */
  readonly meanMs: number;
  readonly p99Ms: number;
  /** The highest number of attempts within one second. */
  readonly peakPerSecond: number;
}

/**
 * Attempts over time: one entry per bin of `binMs` (whole seconds), starting at `fromAt`; at most
 * 4096 bins.
 */
export interface ReplaySeries {
  /** Epoch ms. */
  readonly fromAt: number;
  readonly binMs: number;
  readonly logged: readonly number[];
  readonly replayed: readonly number[];
}

export interface Replay {
  readonly tasks: number;
  readonly logged: ReplayResult;
  readonly replayed: ReplayResult;
  /** Attempts of the other policy with a guessed outcome, because nothing was logged within 5 s. */
  readonly guessed: number;
  /** When the first and the last failed attempt of the log started. */
  readonly failuresFromAt: number | null;
  readonly failuresToAt: number | null;
  readonly series: ReplaySeries;
}

export interface ReplayOptions {
  /** Default: 1. */
  readonly seed?: number | string;
}

/** An outcome counts as known if an attempt was logged within this time. */
const KNOWN_WITHIN_MS = 5000;

/**
 * Reads a log and replays it. Each line is the JSON of an attempt, or of a task from `redrive
 * export`.
 */
export function replay(
  ndjson: string,
  policy: PolicyDocument | PresetName,
  options: ReplayOptions = {},
): Replay {
  const log = parseLog(ndjson);
  const resolved = policyOf(policy);
  const { seed = 1 } = options;
  const random = seededRandom(seed);
  const world = groupByDestination(log);
  const tasks = groupByTask(log);
  const runs = [...tasks.values()].map((attempts) =>
    replayTask(attempts, world, (first, history, outcome, now) =>
      decide(
        resolved,
        { idempotent: first.idempotent ?? true },
        history,
        outcome,
        OPEN_GATES,
        now,
        random.fork(first.taskId).fork(String(history.attempt)),
      ),
    ),
  );
  const before = [...tasks.values()].map(loggedRun);
  const failures = log.filter((attempt) => !isSuccess(attempt)).map((attempt) => attempt.startedAt);
  return {
    tasks: tasks.size,
    logged: resultOf(before),
    replayed: resultOf(runs),
    guessed: runs.reduce((sum, run) => sum + run.guessed, 0),
    failuresFromAt: failures.length === 0 ? null : failures.reduce((a, b) => Math.min(a, b)),
    failuresToAt: failures.length === 0 ? null : failures.reduce((a, b) => Math.max(a, b)),
    series: seriesOf(before, runs),
  };
}

function seriesOf(before: readonly Run[], after: readonly Run[]): ReplaySeries {
  let fromAt = Number.POSITIVE_INFINITY;
  let toAt = 0;
  for (const { startsAt } of [...before, ...after]) {
    fromAt = Math.min(fromAt, startsAt[0] as number);
    toAt = Math.max(toAt, startsAt.at(-1) as number);
  }
  if (before.length === 0) fromAt = 0;
  const binMs = 1000 * Math.max(1, Math.ceil((toAt - fromAt + 1) / (1000 * MAX_BINS)));
  const bins = Math.floor((toAt - fromAt) / binMs) + 1;
  const count = (runs: readonly Run[]) => {
    const counts = new Array<number>(bins).fill(0);
    for (const at of runs.flatMap(({ startsAt }) => startsAt)) {
      const bin = Math.floor((at - fromAt) / binMs);
      counts[bin] = (counts[bin] as number) + 1;
    }
    return counts;
  };
  return { fromAt, binMs, logged: count(before), replayed: count(after) };
}

/** The attempts of each destination, in order of time. */
type AttemptsByDestination = ReadonlyMap<string, readonly LoggedAttempt[]>;

function groupByDestination(log: readonly LoggedAttempt[]): AttemptsByDestination {
  return groupBy(log, (attempt) => attempt.destination ?? "");
}

function groupByTask(log: readonly LoggedAttempt[]): Map<string, LoggedAttempt[]> {
  return groupBy(log, (attempt) => attempt.taskId);
}

function groupBy(
  log: readonly LoggedAttempt[],
  keyOf: (attempt: LoggedAttempt) => string,
): Map<string, LoggedAttempt[]> {
  const groups = new Map<string, LoggedAttempt[]>();
  for (const attempt of log) {
    const group = groups.get(keyOf(attempt));
    if (group === undefined) groups.set(keyOf(attempt), [attempt]);
    else group.push(attempt);
  }
  return groups;
}

/** The logged attempt nearest to an instant. If two are equally near, the earlier one. */
function nearest(attempts: readonly LoggedAttempt[], at: number): LoggedAttempt {
  let low = 0;
  let high = attempts.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((attempts[middle] as LoggedAttempt).startedAt < at) low = middle + 1;
    else high = middle;
  }
  const after = attempts[low] as LoggedAttempt;
  const before = attempts[Math.max(0, low - 1)] as LoggedAttempt;
  return at - before.startedAt <= Math.abs(after.startedAt - at) ? before : after;
}

interface Run {
  readonly startsAt: readonly number[];
  readonly tookMs: number | undefined;
  readonly guessed: number;
  readonly isOpen: boolean;
}

type Decide = (
  first: LoggedAttempt,
  history: { attempt: number; startedAt: number; previousDelayMs: number },
  outcome: Outcome,
  now: number,
) => ReturnType<typeof decide>;

/**
 * Replays one task under the other policy. Its first attempt is the logged one; core decides all
 * later ones.
 */
function replayTask(
  attempts: readonly LoggedAttempt[],
  world: AttemptsByDestination,
  decideNext: Decide,
): Run {
  const first = attempts[0] as LoggedAttempt;
  const seen = world.get(first.destination ?? "") ?? attempts;
  const startsAt: number[] = [];
  let at = first.startedAt;
  let previousDelayMs = 0;
  let guessed = 0;
  for (let attempt = 1; ; attempt++) {
    startsAt.push(at);
    const like = attempt === 1 ? first : nearest(seen, at);
    if (Math.abs(like.startedAt - at) > KNOWN_WITHIN_MS) guessed++;
    const endedAt = at + like.durationMs;
    const history = { attempt, startedAt: first.startedAt, previousDelayMs };
    const decision = decideNext(first, history, outcomeOf(like), endedAt);
    if (decision.kind !== "retry") {
      const ok = decision.kind === "stop" && decision.status === "SUCCEEDED";
      const tookMs = ok ? endedAt - first.startedAt : undefined;
      return { startsAt, tookMs, guessed, isOpen: false };
    }
    previousDelayMs = decision.ownDelayMs;
    at = endedAt + decision.delayMs;
  }
}

function loggedRun(attempts: readonly LoggedAttempt[]): Run {
  const first = attempts[0] as LoggedAttempt;
  const success = attempts.find(isSuccess);
  return {
    startsAt: attempts.map((attempt) => attempt.startedAt),
    tookMs: success && success.startedAt + success.durationMs - first.startedAt,
    guessed: 0,
    isOpen: first.isOpen === true && success === undefined,
  };
}

function resultOf(runs: readonly Run[]): ReplayResult {
  const took = runs
    .flatMap(({ tookMs }) => (tookMs === undefined ? [] : [tookMs]))
    .sort((a, b) => a - b);
  const perSecond = new Map<number, number>();
  let attempts = 0;
  let peakPerSecond = 0;
  let unfinished = 0;
  for (const { startsAt, isOpen } of runs) {
    if (isOpen) unfinished++;
    attempts += startsAt.length;
    for (const at of startsAt) {
      const count = (perSecond.get(Math.floor(at / 1000)) ?? 0) + 1;
      perSecond.set(Math.floor(at / 1000), count);
      peakPerSecond = Math.max(peakPerSecond, count);
    }
  }
  return {
    attempts,
    succeeded: took.length,
    exhausted: runs.length - took.length - unfinished,
    unfinished,
    meanMs: took.length === 0 ? 0 : took.reduce((sum, ms) => sum + ms, 0) / took.length,
    p99Ms: took[Math.max(0, Math.ceil(took.length * 0.99) - 1)] ?? 0,
    peakPerSecond,
  };
}

// Replay log: parses the log of a service. A line is an attempt, or a task with its attempts as
// `redrive tasks export` writes it. For any other line the error names the line number.

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
function parseLog(ndjson: string): LoggedAttempt[] {
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

function isSuccess({ outcome, responseStatus }: LoggedAttempt): boolean {
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

function hintOf(attempt: LoggedAttempt): Hint {
  const { responseHeaders, responseStatus, startedAt, durationMs } = attempt;
  const at = startedAt + durationMs;
  return headerHint((name) => responseHeaders?.[name], responseStatus ?? undefined, at) ?? {};
}
