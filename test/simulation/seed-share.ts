/**
 * Seed share: runs a share of the seeds, in a process of its own. In `npm test`, two test files run a
 * half each; in `npm run test:long`, each core runs one share.
 */
import { messageOf } from "@redrive/core";
import { Coverage } from "./coverage.ts";
import { simulateSeed } from "./simulate.ts";
import { withoutStackTraces } from "./stack-traces.ts";

/** `npm run test:long` runs five times as many. */
const SEEDS = Number(process.env["REDRIVE_SEEDS"] ?? 2000);

/** With fewer seeds, rare events may not happen. */
const MIN_SEEDS_FOR_COVERAGE = 250;

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

const REQUIRED_FAULTS = [
  "lost",
  "torn",
  "unknown",
  "delayed",
  "late",
  "cut",
  "full",
  "refused",
] as const;

/** With this many failures, the other seeds would say nothing new. */
const MAX_FAILURES = 5;

/** Throws the violations of all seeds, or what the seeds did not cover. */
export async function runShare(share: number, shares: number): Promise<void> {
  const coverage = new Coverage();
  const start = process.cpuUsage();
  const failures = await withoutStackTraces(() => simulateSeeds(share, shares, coverage));
  if (failures.length > 0) throw new Error(failures.join("\n"));
  const { user, system } = process.cpuUsage(start);
  const { seeds } = coverage.totals;
  const perSeed = ((user + system) / 1e6 / seeds).toFixed(3);
  console.log(`${coverage.report()}\n${seeds} seeds, ${perSeed} s of processor time per seed`);
  const missing = missingFrom(coverage);
  if (missing.length > 0) throw new Error(`${seeds} seeds without ${missing.join(", ")}`);
}

/** Returns what failed, one text per seed. A long run finds all failing seeds, not only the first. */
async function simulateSeeds(
  share: number,
  shares: number,
  coverage: Coverage,
): Promise<readonly string[]> {
  const failures: string[] = [];
  const parent = process.ppid;
  for (let seed = share; seed < SEEDS && failures.length < MAX_FAILURES; seed += shares) {
    await simulateSeed(seed, { coverage }).catch((error: unknown) => {
      failures.push(messageOf(error));
    });
    // A seed never waits for the event loop, so no event can say that the parent was killed.
    if (process.ppid !== parent) throw new Error("the process that wants the result has ended");
  }
  return failures;
}

/** What must happen, and did not. */
function missingFrom(coverage: Coverage): readonly string[] {
  const { seeds, tasks, crashes } = coverage.totals;
  const missing: string[] = REQUIRED_FAULTS.filter(
    (fault) => (coverage.faults[fault] ?? 0) <= seeds,
  );
  if (tasks < 200 * seeds) missing.push("200 tasks each");
  if (crashes < 5 * seeds) missing.push("5 crashes each");
  if (seeds < MIN_SEEDS_FOR_COVERAGE) return missing;
  const events = REQUIRED_EVENTS.filter(([state, event]) => !coverage.has(state, event));
  return [...missing, ...events.map(([state, event]) => `${state} ${event}`)];
}
