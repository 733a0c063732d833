/** Limits of a destination hold for three nodes together, measured at the target. */
// needs: postgres, redis, build
import { expect, it } from "vitest";
import { describeSharedFleet, type Node, ROUNDS } from "./fleet.ts";
import { allEnded, createTasks, expectBounded, noGuards } from "./load.ts";

const SLOTS = 5;
const PER_SECOND = 20;
const BURST = 5;
/** On a busy machine, a request may arrive this much later than it started. */
const LATE_MS = 750;
/** All tasks are created before the first is due, so that this process has time for the target. */
const CREATED_WITHIN_MS = 3000;

describeSharedFleet("limits of a destination", (open) => {
  it(`${SLOTS} slots are never exceeded, and are used`, async () => {
    const fleet = await open(() => ({ status: 200, afterMs: 50 }));
    const { target } = fleet;
    const [first] = fleet.nodes as [Node];
    const concurrency = { algorithm: "FIXED", max: SLOTS };
    await first.client.configure(target.origin, { ...noGuards, concurrency });
    const taskIds = await createTasks(fleet, 200 * ROUNDS);
    await allEnded(first, taskIds);
    expectBounded(target, taskIds);
    const events = fleet.nodes.map(({ log }) => log.filter(({ event }) => event !== undefined));
    expect(target.maxOpen, `events: ${JSON.stringify(events)}`).toBeLessThanOrEqual(SLOTS);
    expect(target.maxOpen).toBeGreaterThan(1);
  });

  it(`a rate of ${PER_SECOND} per second holds in every window`, async () => {
    const fleet = await open();
    const { target } = fleet;
    const [first] = fleet.nodes as [Node];
    const rate = { perSecond: PER_SECOND, burst: BURST };
    await first.client.configure(target.origin, { ...noGuards, rate });
    const scheduledAt = Date.now() + CREATED_WITHIN_MS;
    const taskIds = await createTasks(fleet, 240, { scheduledAt });
    await allEnded(first, taskIds);
    expectBounded(target, taskIds);
    const attempts = (await first.client.attempts(taskIds)).flat();
    expectRate(attempts.map(({ startedAt }) => startedAt));
    expectRate(
      target.requests.map(({ at }) => at),
      LATE_MS,
    );
  });
});

/** `lateMs`: a window may contain what belongs to a window that is this much longer. */
function expectRate(instants: readonly number[], lateMs = 0): void {
  const times = [...instants].sort((a, b) => a - b);
  const windows = [1000, 3000, 10_000];
  const counts = windows.map((windowMs) => maxInWindow(times, windowMs));
  // Instants are whole milliseconds, so a window may contain both of its ends.
  const limits = windows.map((windowMs) => (PER_SECOND * (windowMs + lateMs)) / 1000 + BURST + 1);
  console.log(
    `most requests in 1, 3 and 10 s: ${counts.join(", ")}; allowed: ${limits.join(", ")}`,
  );
  expect(counts.filter((count, n) => count > (limits[n] ?? 0))).toEqual([]);
}

/** The largest number of arrivals in any window of this length. */
function maxInWindow(times: readonly number[], windowMs: number): number {
  let max = 0;
  let from = 0;
  for (const [index, at] of times.entries()) {
    while (times[from]! <= at - windowMs) from++;
    max = Math.max(max, index - from + 1);
  }
  return max;
}
