/** Limit history: the changes of a concurrency limit as sentences, and as a line over time. */
import { formatCount } from "@redrive/core";
import type { LimitChange } from "../service/client.ts";

/** Why the limit changed. */
export function limitReason({ cause, detail, steps, from, to }: LimitChange): string {
  switch (cause) {
    case "successes":
      return `${formatCount(steps, "call")} succeeded while at least half of the limit was in use.`;
    case "overload":
      return overloadReason(detail, steps);
    case "latency":
      return to > from
        ? "Calls were about as fast as usual."
        : "Calls took longer than usual, or the target refused many of them.";
    case "ramp-started":
      return "It restarted after a pause, a Retry-After or an open circuit.";
    case "ramp":
      return to > from
        ? "One more slot per success, up to the old limit."
        : "Calls failed during the ramp.";
    case "document":
      return "The document changed.";
  }
}

function overloadReason(detail: string | null, steps: number): string {
  const times = steps === 1 ? "once" : `${steps} times`;
  if (detail === "timeout") return `Calls timed out (cut ${times}).`;
  return detail === null
    ? `The target refused calls for overload (cut ${times}).`
    : `The target refused calls for overload: ${detail} (cut ${times}).`;
}

export interface LimitPoint {
  readonly at: number;
  readonly limit: number;
}

/** The corners of the line, the oldest first; it ends now. A change over several steps is a slope. */
export function limitLine(changes: readonly LimitChange[], now: number): readonly LimitPoint[] {
  const points = changes.flatMap(({ sinceAt, at, from, to }) => [
    { at: sinceAt, limit: from },
    { at, limit: to },
  ]);
  const last = points.at(-1);
  return last === undefined ? [] : [...points, { at: Math.max(now, last.at), limit: last.limit }];
}
