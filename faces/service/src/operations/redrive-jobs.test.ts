/** Redrive jobs, on a virtual clock: their pace, their set, and their ends. */
import { virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import type { TaskFilter } from "../store.ts";
import type { RetryTask } from "../task.ts";
import { RedriveJobs } from "./redrive-jobs.ts";

function setup(count: number) {
  const clock = virtualClock();
  const redriven: { readonly taskId: string; readonly atMs: number }[] = [];
  const filters: TaskFilter[] = [];
  const jobs = new RedriveJobs(clock, {
    now: () => clock.now(),
    newId: () => "job-1",
    async list(filter) {
      filters.push(filter);
      const tasks = Array.from({ length: count }, (_, n) => ({
        taskId: `task-${n}`,
        redrivenTo: n === 3 ? "x" : null,
      }));
      return { tasks: tasks as unknown as RetryTask[], cursor: null };
    },
    async redriveTask(taskId) {
      if (taskId === "task-bad") throw new Error("the store is gone");
      redriven.push({ taskId, atMs: clock.monotonicMs() });
      return taskId === "task-1" ? null : `new-${taskId}`;
    },
  });
  return { clock, jobs, redriven, filters };
}

const order = { tenantId: "acme", filter: {} };

it("counts what is left of the set, and freezes it by time", async () => {
  const { jobs, filters, clock } = setup(10);
  const job = await jobs.start({ ...order, dryRun: true });
  expect(job).toMatchObject({ status: "DONE", total: 9, redriven: 0 });
  expect(filters[0]).toEqual({ status: "EXHAUSTED", finishedTo: clock.now() + 1 });
});

it("never runs ahead of its rate", async () => {
  const { jobs, redriven, clock } = setup(21);
  await jobs.start({ ...order, ratePerSecond: 10 });
  await clock.advance(10_000);
  expect(jobs.get("job-1", "acme")).toMatchObject({
    status: "DONE",
    total: 20,
    redriven: 19,
    skipped: 1,
  });
  redriven.forEach(({ atMs }, n) => {
    expect(n + 1).toBeLessThanOrEqual(1 + atMs / 100 + 1e-6);
  });
  expect(redriven.at(-1)?.atMs).toBeLessThanOrEqual(2100);
});

it("ends when it is cancelled, and stays so", async () => {
  const { jobs, redriven, clock } = setup(100);
  await jobs.start({ ...order, ratePerSecond: 1 });
  await clock.advance(2500);
  expect(jobs.cancel("job-1", "acme")?.status).toBe("CANCELLED");
  const before = redriven.length;
  await clock.advance(60_000);
  expect(redriven.length).toBe(before);
  expect(jobs.cancel("job-1", "acme")?.status).toBe("CANCELLED");
  expect(jobs.cancel("job-1", "other")).toBeUndefined();
});

it("says why it failed", async () => {
  const { jobs, clock } = setup(0);
  await jobs.start({ ...order, taskIds: ["task-bad"] });
  await clock.advance(1000);
  expect(jobs.list("acme")).toMatchObject([{ status: "FAILED", error: "the store is gone" }]);
});
