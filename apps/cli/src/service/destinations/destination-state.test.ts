/** Tests of the one word for a destination: what holds its tasks, and otherwise whether it fails. */
import { expect, test } from "vitest";
import { type Destination, stateOf } from "./destination-state.ts";

const NOW = 100_000;

function destination(fields: Partial<Destination>): Destination {
  const well = {
    pausedAt: null,
    breakerState: "CLOSED",
    gateUntil: 0,
    rateUntil: 0,
    retryBudget: "open",
    recent: { attempts: 4, failed: 1, failing: false },
  };
  return { ...well, ...fields } as Destination;
}

const failing = { attempts: 8, failed: 8, failing: true };

test.each<[string, Partial<Destination>]>([
  ["ok", {}],
  ["failing (8 of 8)", { recent: failing }],
  ["paused", { pausedAt: 1, recent: failing }],
  ["breaker open", { breakerState: "OPEN", recent: failing }],
  ["rate limited", { rateUntil: NOW + 1 }],
  ["no retries left", { retryBudget: "empty" }],
])("is %s", (text, fields) => {
  expect(stateOf(destination(fields), NOW).text).toBe(text);
});
