/** Wait text: what a task waits for now, and how long its attempts waited and for which cause. */
import { formatDuration } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { formatTimeOfDay, formatUntil } from "./relative-time.ts";

type Task = Awaited<ReturnType<Client["getTask"]>>;
type Wait = NonNullable<Task["wait"]>;

const NAMES: Readonly<Record<Wait["cause"], string>> = {
  policy: "policy",
  "retry-after": "Retry-After",
  "circuit-open": "breaker",
  "retry-budget": "retry budget",
  concurrency: "concurrency limit",
  rate: "rate",
  throttle: "throttle",
  pause: "pause",
  late: "late",
};

/** The waits before an attempt, such as "2 s policy, 7.2 s breaker". */
export function waitsText(
  waits: readonly { readonly cause: Wait["cause"]; readonly durationMs: number }[],
): string {
  return waits
    .map(({ cause, durationMs }) => `${formatDuration(durationMs)} ${NAMES[cause]}`)
    .join(", ");
}

/** Such as "held by the breaker of `payments` since 14:03:59, next probe in 1.9 s". */
export function currentWaitText(
  { cause, sinceAt, untilAt }: Wait,
  destination: string,
  now: number,
): string {
  const left = untilAt !== null && untilAt > now ? formatUntil(untilAt, now) : undefined;
  if (cause === "policy") return `waits for the delay of its policy${ending(", next", left)}`;
  const since = `since ${formatTimeOfDay(sinceAt)}`;
  const next = cause === "circuit-open" ? ", next probe" : ", next check";
  if (cause === "late") return `late ${since}`;
  return `held by the ${NAMES[cause]} of \`${destination}\` ${since}${ending(next, left)}`;
}

function ending(what: string, left: string | undefined): string {
  return left === undefined ? "" : `${what} in ${left}`;
}
