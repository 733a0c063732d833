/** Destination testing: a healthy destination, with changed fields. */
import type { DestinationView } from "./client.ts";

export function destinationWith(fields: Partial<DestinationView>): DestinationView {
  return {
    name: "pay",
    document: null,
    unreadable: null,
    pausedAt: null,
    disabledTargets: [],
    gateUntil: 0,
    breakerState: "CLOSED",
    openUntil: 0,
    rateUntil: 0,
    retryBudget: "open",
    concurrency: { inFlight: 1, limit: 10 },
    latency: null,
    recent: { attempts: 0, failed: 0, failing: false },
    tasks: {},
    backlog: 0,
    nextDueAt: null,
    held: [],
    ...fields,
  };
}
