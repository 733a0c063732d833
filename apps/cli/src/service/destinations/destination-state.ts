/** Destination state: one word for how a destination does, for tables. */
import type { Client } from "@redrive/service/client";
import { formatUntil } from "../../print/relative-time.ts";
import type { Cell } from "../../print/table.ts";

export type Destination = Awaited<ReturnType<Client["getDestination"]>>;

/** The reason why tasks wait, in the same order of precedence as `explain` for one task. */
export function stateOf(one: Destination, now: number): Exclude<Cell, string> {
  const { pausedAt, breakerState, gateUntil, rateUntil, retryBudget, recent } = one;
  if (pausedAt !== null) return { text: "paused", tone: "warn" };
  if (breakerState !== "CLOSED") {
    return { text: `breaker ${breakerState.toLowerCase()}`, tone: "bad" };
  }
  if (gateUntil > now) {
    return { text: `Retry-After ${formatUntil(gateUntil, now)}`, tone: "warn" };
  }
  if (rateUntil > now) return { text: "rate limited", tone: "warn" };
  if (retryBudget === "empty") return { text: "no retries left", tone: "warn" };
  if (recent.failing) {
    return { text: `failing (${recent.failed} of ${recent.attempts})`, tone: "bad" };
  }
  // Not "open", which means the opposite for a breaker.
  return { text: "ok", tone: "good" };
}
