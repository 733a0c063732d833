/** Simulation runner: runs a share of the seeds. Four test files run a quarter each. */
import { expect } from "vitest";
import { Coverage } from "./coverage.ts";
import { simulateSeed } from "./simulate.ts";

/** `npm run test:long` runs five times as many. */
const SEEDS = Number(process.env["REDRIVE_SEEDS"] ?? 2000);

/** With fewer seeds, rare events may not happen. */
const MIN_SEEDS_FOR_COVERAGE = 400;

/** Events that must happen: without them the simulation proves nothing about them. */
const REQUIRED_EVENTS = [
  ["PENDING", "claim first"],
  ["PENDING", "claim retry"],
  ["PENDING", "claim suspect"],
  ["PENDING", "claim first: row moved"],
  ["PENDING", "cancel: cancelled"],
  ["IN_FLIGHT", "cancel: requested"],
  ["IN_FLIGHT", "settle success, cancel requested: SUCCEEDED"],
  ["IN_FLIGHT", "settle error, cancel requested: CANCELLED"],
  ["IN_FLIGHT", "settle abandoned: PENDING"],
  ["IN_FLIGHT", "settle abandoned: EXHAUSTED"],
  ["IN_FLIGHT", "settle released: PENDING"],
  ["IN_FLIGHT", "settle released: EXHAUSTED"],
  ["IN_FLIGHT", "settle error: fenced"],
  ["PENDING", "settle status: fenced"],
  ["SUCCEEDED", "settle success: fenced"],
  ["SUCCEEDED", "cancel: ended"],
  ["PENDING", "retry now: rescheduled"],
  ["IN_FLIGHT", "retry now: not-pending"],
  ["CLOSED", "document written"],
  ["CLOSED", "document refused"],
  ["OPEN", "document written"],
  ["CLOSED", "pause written"],
  ["OPEN", "resume written"],
  ["PENDING", "cancel: cancelled, with a callback"],
  ["IN_FLIGHT", "settle success: SUCCEEDED, with a callback"],
  ["IN_FLIGHT", "settle abandoned: EXHAUSTED, with a callback"],
  ["IN_FLIGHT", "settle error, cancel requested: CANCELLED, with a callback"],
  ["EXHAUSTED", "redrive: created claimed"],
  ["EXHAUSTED", "redrive: redriven"],
  ["(job)", "DONE"],
  ["(guards)", "restored"],
  ["(none)", "created claimed"],
  ["(none)", "replayed"],
] as const;

export async function runShare(share: number, shares: number): Promise<void> {
  const coverage = new Coverage();
  for (let seed = share; seed < SEEDS; seed += shares) await simulateSeed(seed, { coverage });
  console.log(coverage.report());
  const { seeds, tasks, crashes } = coverage.totals;
  expect(tasks).toBeGreaterThanOrEqual(200 * seeds);
  expect(crashes).toBeGreaterThanOrEqual(5 * seeds);
  for (const fault of ["lost", "torn", "unknown", "delayed", "late", "cut", "full", "refused"]) {
    expect(coverage.faults[fault]).toBeGreaterThan(seeds);
  }
  if (seeds < MIN_SEEDS_FOR_COVERAGE) return;
  for (const [state, event] of REQUIRED_EVENTS)
    expect(coverage.has(state, event), event).toBe(true);
}
