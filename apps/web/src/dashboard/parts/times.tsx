/** Times: instants as ages and countdowns that stay current, and as dates in a tooltip. */
import { signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { now } from "../service/client.ts";
import { roundDuration } from "./round-duration.ts";

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

/** "3 min ago" or "in 12 s". */
export function When({ at }: { readonly at: number }) {
  const leftMs = at - tick.value;
  const isNear = Math.abs(leftMs) < TICK_MS;
  const text = isNear ? "now" : relativeText(leftMs);
  return (
    <span class="when" title={formatInstant(at)}>
      {text}
    </span>
  );
}

function relativeText(leftMs: number): string {
  return leftMs > 0 ? `in ${roundDuration(leftMs)}` : `${roundDuration(-leftMs)} ago`;
}
