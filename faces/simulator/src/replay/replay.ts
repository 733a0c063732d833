/**
 * Replay: reads the attempt log of a service and simulates the same outage under another policy. An
 * attempt of the other policy gets the outcome of the nearest logged attempt of the same
 * destination. An attempt that is far from any logged one gets a guessed outcome, and the guesses
 * are counted.
 */
import {
  decide,
  OPEN_GATES,
  type Outcome,
  type PolicyDocument,
  type PresetName,
  seededRandom,
} from "@redrive/core";
import { MAX_BINS } from "../measure/tally.ts";
import { policyOf } from "../schedule/policy-of.ts";
import { isSuccess, type LoggedAttempt, outcomeOf, parseLog } from "./replay-log.ts";

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
