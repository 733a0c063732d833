/** Strategy requests: measures of one policy under every backoff strategy. */
import type { PolicyDocument } from "@redrive/core";
import { coverage, herd, type Schedule, schedule, strategyDocument } from "@redrive/simulator";

export interface StrategyInput {
  /** Base, cap, attempts and total budget. Jitter and growth come from the strategy. */
  readonly curve: PolicyDocument;
  readonly outageMs: number;
  readonly seed: number | string;
  readonly names: readonly string[];
}

export interface StrategyMeasures {
  readonly name: string;
  readonly clients: number;
  readonly windowMs: number;
  /** The arrivals in the fullest window, as a share of the clients. */
  readonly peakShare: number;
  /** The sum of a call's waits: mean, 5th percentile and 95th percentile. */
  readonly meanMs: number;
  readonly lowMs: number;
  readonly highMs: number;
  /** Jain's fairness index over those sums; 1 means all are equal. */
  readonly fairness: number;
  readonly coverage: number;
  /** The mean wait before attempt 2, 3 and so on. */
  readonly meanWaitsMs: readonly number[];
}

const CLIENTS = 1000;

/** Exponential waits, and a bucket of retries that all clients share. */
const TOKEN_BUCKET = "token-bucket";

export function measureStrategies(input: StrategyInput): readonly StrategyMeasures[] {
  const windowMs = Math.max(1, Math.floor((input.curve.initialDelayMs ?? 100) / 10));
  return input.names.flatMap((name) => {
    const document = documentOf(name, input.curve);
    return document === undefined ? [] : [measure(name, document, windowMs, input)];
  });
}

function documentOf(name: string, curve: PolicyDocument): PolicyDocument | undefined {
  if (name === "proportional") return { ...curve, jitterType: "PROPORTIONAL" };
  return strategyDocument(name === TOKEN_BUCKET ? "none" : name, curve);
}

function measure(
  name: string,
  document: PolicyDocument,
  windowMs: number,
  { outageMs, seed }: StrategyInput,
): StrategyMeasures {
  const schedules = Array.from({ length: CLIENTS }, (_, call) =>
    schedule(document, { seed, callId: String(call) }),
  );
  const common = { name, clients: CLIENTS, windowMs, meanWaitsMs: meanWaitsOf(schedules) };
  if (name === TOKEN_BUCKET) {
    const { sums, peak, outlasting } = runBucket(schedules, windowMs, outageMs);
    const shares = { peakShare: peak / CLIENTS, coverage: outlasting / CLIENTS };
    return { ...common, ...shares, ...sumFigures(sums) };
  }
  return {
    ...common,
    peakShare: herd(document, { clients: CLIENTS, windowMs, seed }).peak.share,
    coverage: coverage(document, outageMs, { seed }),
    ...sumFigures(schedules.map(({ sumMs }) => sumMs)),
  };
}

function sumFigures(unsorted: readonly number[]) {
  const sums = Float64Array.from(unsorted).sort();
  const total = sums.reduce((sum, each) => sum + each, 0);
  const squares = sums.reduce((sum, each) => sum + each * each, 0);
  return {
    meanMs: total / CLIENTS,
    lowMs: sums[Math.floor(CLIENTS * 0.05)] as number,
    highMs: sums[Math.floor(CLIENTS * 0.95)] as number,
    fairness: squares === 0 ? 1 : (total * total) / (CLIENTS * squares),
  };
}

function meanWaitsOf(schedules: readonly Schedule[]): readonly number[] {
  const longest = Math.max(0, ...schedules.map(({ waits }) => waits.length));
  return Array.from({ length: longest }, (_, index) => {
    const waits = schedules.flatMap((one) => one.waits[index]?.delayMs ?? []);
    return waits.reduce((sum, each) => sum + each, 0) / waits.length;
  });
}

// Token bucket: calls that fail at the same instant and share one bucket of retries, as in the AWS
// SDKs. A retry takes from the bucket, in the order of time; a call that gets nothing gives up.
// Nothing refills the bucket while all calls fail.

/** The retries of the full bucket of an AWS SDK: 500 tokens, 5 for each retry. */
export const BUCKET_RETRIES = 100;

interface BucketRun {
  /** When each call made its last attempt, ms after the first. */
  readonly sums: readonly number[];
  /** The retries in the fullest window. */
  readonly peak: number;
  /** The calls that made an attempt after the outage. */
  readonly outlasting: number;
}

export function runBucket(
  schedules: readonly Pick<Schedule, "waits">[],
  windowMs: number,
  outageMs: number,
): BucketRun {
  const sums = schedules.map(() => 0);
  const perWindow = new Map<number, number>();
  const outlasting = new Set<number>();
  for (const { call, sumMs } of allowedRetries(schedules, outageMs)) {
    sums[call] = sumMs;
    const window = Math.floor(sumMs / windowMs);
    perWindow.set(window, (perWindow.get(window) ?? 0) + 1);
    if (sumMs >= outageMs) outlasting.add(call);
  }
  return {
    sums,
    peak: Math.max(0, ...perWindow.values()),
    outlasting: outageMs === 0 ? schedules.length : outlasting.size,
  };
}

interface Retry {
  readonly call: number;
  readonly sumMs: number;
}

function allowedRetries(
  schedules: readonly Pick<Schedule, "waits">[],
  outageMs: number,
): readonly Retry[] {
  const retries = schedules
    .flatMap(({ waits }, call) => waits.map(({ sumMs }) => ({ call, sumMs })))
    .sort((a, b) => a.sumMs - b.sumMs);
  const ended = new Set<number>();
  const allowed: Retry[] = [];
  for (const retry of retries) {
    if (ended.has(retry.call)) continue;
    const isEmpty = allowed.length === BUCKET_RETRIES;
    if (!isEmpty) allowed.push(retry);
    // The call gives up, or it succeeds because the outage is over.
    if (isEmpty || retry.sumMs >= outageMs) ended.add(retry.call);
  }
  return allowed;
}
