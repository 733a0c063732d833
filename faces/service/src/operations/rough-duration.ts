/** Rough duration: a duration in a sentence, with two or three digits: "46 s", not "46.42 s". */
import { formatDuration } from "@redrive/core";

/** Below `belowMs`, a duration is rounded to `stepMs`. */
const STEPS = [
  { belowMs: 1000, stepMs: 1 },
  { belowMs: 10_000, stepMs: 100 },
  { belowMs: 60_000, stepMs: 1000 },
  { belowMs: 3_600_000, stepMs: 6000 },
  { belowMs: 86_400_000, stepMs: 360_000 },
] as const;
const DAY_STEP_MS = 8_640_000;

export function roughDuration(ms: number): string {
  const stepMs = STEPS.find(({ belowMs }) => ms < belowMs)?.stepMs ?? DAY_STEP_MS;
  return formatDuration(Math.round(ms / stepMs) * stepMs);
}
