/**
 * Schedule: the waits of one call whose every attempt fails at once, attempt by attempt: what the
 * policy allows (ceiling and range) and what chance makes of it under one seed.
 */
import { kernelOf, type PolicyDocument, type PresetName, seededRandom } from "@redrive/core";
import { resolvePolicy } from "./scenario.ts";

export interface ScheduleOptions {
  /** Default: 1. */
  readonly seed?: number | string;
  /** The call's own stream, as the faces fork it; left out: the seed's. */
  readonly callId?: string;
}

/** The wait that follows one failed attempt. */
export interface ScheduledWait {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly ceilingMs: number;
  /** Chance picks from here to there. */
  readonly lowMs: number;
  readonly highMs: number;
  readonly delayMs: number;
  /** All waits up to and including this one: when the next attempt starts. */
  readonly sumMs: number;
}

export interface Schedule {
  readonly waits: readonly ScheduledWait[];
  readonly sumMs: number;
  readonly attempts: number;
  /** Why it ends: no attempts are left, or the total budget is spent. */
  readonly endedBy: "attempts" | "budget";
}

const LAST_DRAW = 1 - 2 ** -53;

export function schedule(
  policy: PolicyDocument | PresetName,
  options: ScheduleOptions = {},
): Schedule {
  const resolved = resolvePolicy(policy);
  const kernel = kernelOf(resolved);
  const { seed = 1, callId } = options;
  const random = callId === undefined ? seededRandom(seed) : seededRandom(seed).fork(callId);
  const waits: ScheduledWait[] = [];
  let sumMs = 0;
  let previousMs = 0;
  for (let attempt = 1; attempt < resolved.maxAttempts; attempt++) {
    const draw = kernel.draws ? random.next() : 0;
    const delayMs = kernel.next(attempt, sumMs, previousMs, draw);
    if (delayMs < 0) return { waits, sumMs, attempts: attempt, endedBy: "budget" };
    sumMs += delayMs;
    waits.push({
      attempt,
      ceilingMs: kernel.ceilingMs(attempt),
      lowMs: kernel.delayMs(attempt, previousMs, 0),
      highMs: kernel.delayMs(attempt, previousMs, LAST_DRAW),
      delayMs,
      sumMs,
    });
    previousMs = delayMs;
  }
  return { waits, sumMs, attempts: resolved.maxAttempts, endedBy: "attempts" };
}
