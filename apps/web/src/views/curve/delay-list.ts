/** Delay list: parses and formats lists of waits such as "100ms, 2s, 5m". */
import { parseDuration } from "@redrive/core";

const MAX_ENTRIES = 999;
const MAX_MS = 30 * 86_400_000;

/** The waits, or an error message. A wait has a unit, as on the command line. */
export function parseDelays(text: string): readonly number[] | string {
  const entries = text.split(/[\s,;]+/u).filter((entry) => entry !== "");
  if (entries.length === 0) return "The list is empty: enter waits such as 100ms, 2s, 5m.";
  if (entries.length > MAX_ENTRIES)
    return `Enter at most ${MAX_ENTRIES} waits, not ${entries.length}.`;
  const bare = entries.find((entry) => /^[\d.]+$/u.test(entry));
  if (bare !== undefined) return `“${bare}” has no unit: did you mean ${bare}ms or ${bare}s?`;
  const delays = entries.map(parseDuration);
  const bad = delays.findIndex((delay) => delay === undefined || delay > MAX_MS);
  if (bad >= 0)
    return `“${entries[bad]}” is not a wait: enter for example 100ms, 2s, 5m or 1h, up to 30d.`;
  return delays as readonly number[];
}

const UNITS = [
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** Uses the largest unit that divides each wait. */
export function formatDelays(delays: readonly number[]): string {
  return delays
    .map((ms) => {
      const [unit, unitMs] = UNITS.find(([, each]) => ms > 0 && ms % each === 0) ?? ["ms", 1];
      return `${ms / unitMs}${unit}`;
    })
    .join(", ");
}
