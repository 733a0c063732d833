/** Times: instants as ages and countdowns that stay current, and as dates in a tooltip; round durations. */
import { computed, signal } from "@preact/signals";
import { formatInteger, systemClock } from "@redrive/core";
import { useMemo } from "preact/hooks";
import { now } from "./client.ts";

const TICK_MS = 1000;

/** The time, once per second while the page is visible. */
export const tick = signal(now());

export function startTicking(): void {
  systemClock.alarm(TICK_MS, () => {
    if (!document.hidden) tick.value = now();
    startTicking();
  });
}

const INSTANT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** The largest instant that a browser can format. */
const MAX_INSTANT = 8.64e15;

export function formatInstant(at: number): string {
  return Math.abs(at) <= MAX_INSTANT ? INSTANT.format(at) : "never";
}

/** "3 min ago" or "in 12 s". The page changes only when the text does, not with every tick. */
export function When({ at }: { readonly at: number }) {
  const text = useMemo(() => computed(() => relativeText(at - tick.value)), [at]);
  return (
    <span class="when" title={formatInstant(at)}>
      {text}
    </span>
  );
}

/** Whether the instant is in the past. Reading it follows the time. */
function useIsPast(at: number): boolean {
  return useMemo(() => computed(() => at < tick.value), [at]).value;
}

/** How long something has lasted: "3 min". */
export function Lasting({ since }: { readonly since: number }) {
  const text = useMemo(
    () => computed(() => roundDuration(Math.max(0, tick.value - since))),
    [since],
  );
  return <span title={formatInstant(since)}>{text}</span>;
}

/** When something is due: "in 12 s" or "due 3 min ago". */
export function Due({ at }: { readonly at: number }) {
  return (
    <>
      {useIsPast(at) && "due "}
      <When at={at} />
    </>
  );
}

function relativeText(leftMs: number): string {
  if (Math.abs(leftMs) < TICK_MS) return "now";
  return leftMs > 0 ? `in ${roundDuration(leftMs)}` : `${roundDuration(-leftMs)} ago`;
}

const UNITS = [
  { unit: "s", ms: 1000, below: 100 },
  { unit: "min", ms: 60_000, below: 100 },
  { unit: "h", ms: 3_600_000, below: 48 },
] as const;
const DAY_MS = 86_400_000;

/**
 * A duration for people who look at a clock, without decimals that change every second: 250 ms, 42 s,
 * 7 min, 5 h, 3 d. A unit is used until it has a hundred, so that little is lost.
 */
export function roundDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  for (const { unit, ms: unitMs, below } of UNITS) {
    const count = Math.round(ms / unitMs);
    if (count < below) return `${count} ${unit}`;
  }
  return `${formatInteger(ms / DAY_MS)} d`;
}
