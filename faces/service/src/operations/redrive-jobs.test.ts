/**
 * Tests of redrive jobs on a virtual clock: their rate, their set, their ends, and what survives a
 * process.
 */
import { type VirtualClock, virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import type { DocumentTable } from "../model/document-table.ts";
import { serviceError } from "../model/errors.ts";
import type { RetryTask } from "../model/task.ts";
import type { TaskFilter } from "../model/task-query.ts";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { markOf } from "./redrive-job.ts";
import { RedriveJobs } from "./redrive-jobs.ts";
import type { RedriveSource } from "./redrive-run.ts";

/**
 * A service with the given number of dead letters, which survives the processes that work on it.
 */
class World {
  readonly clock: VirtualClock = virtualClock();
  readonly documents: DocumentTable = memoryDocuments();
  readonly tasks: Map<string, RetryTask>;
  readonly made: { readonly taskId: string; readonly atMs: number }[] = [];
  readonly filters: TaskFilter[] = [];
  rows: DestinationRow[] = [];
  failures: Error[] = [];
  /** The result of new tasks. */
  status: RetryTask["status"] = "SUCCEEDED";
  attemptNumber = 1;
  #lastId = 0;

  constructor(count: number) {
    const ids = Array.from({ length: count }, (_, n) => `0100-${String(n).padStart(4, "0")}`);
    const dead = { status: "EXHAUSTED", redrivenTo: null, destination: "shop" };
    this.tasks = new Map(ids.map((taskId) => [taskId, { ...dead, taskId } as RetryTask]));
  }

  /** The new tasks have started. */
  startAll(): void {
    for (const task of this.tasks.values()) {
      if (task.taskId.startsWith("0300"))
        this.tasks.set(task.taskId, { ...task, attemptNumber: 1 });
    }
  }

  /** In small steps, because a run continues for many ticks without an alarm. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) await this.clock.advance(50);
  }

  process(exclusive = true, nodeId = "node-1"): RedriveJobs {
    const { clock, documents } = this;
    return new RedriveJobs({ clock, documents, nodeId, exclusive, source: this.#source() });
  }

  #source(): RedriveSource {
    return {
      now: () => this.clock.now(),
      newId: () => `0200-${String(++this.#lastId).padStart(4, "0")}`,
      get: async (taskId) => this.tasks.get(taskId) ?? null,
      list: async (filter) => {
        this.filters.push(filter);
        const dead = [...this.tasks.values()].filter(({ taskId }) => taskId.startsWith("0100"));
        return { tasks: dead, cursor: null };
      },
      openCircuits: async () => this.rows.filter(({ breakerState }) => breakerState !== "CLOSED"),
      destinationRow: async (name) => this.rows.find((row) => row.name === name) ?? null,
      redriveTask: async (taskId, _, { redriveId }) => {
        this.#redrive(taskId, redriveId);
        // A commit takes time.
        await this.clock.sleep(1);
      },
    };
  }

  #redrive(taskId: string, redriveId: string): void {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    const source = this.tasks.get(taskId);
    if (source?.redrivenTo !== null) return;
    const redrivenTo = `0300-${String(++this.#lastId)}-${markOf(redriveId, taskId)}`;
    this.tasks.set(taskId, { ...source, redrivenTo });
    const { status, attemptNumber } = this;
    const made = { taskId: redrivenTo, status, attemptNumber, redrivenTo: null };
    this.tasks.set(redrivenTo, { ...source, ...made });
    this.made.push({ taskId, atMs: this.clock.monotonicMs() });
  }
}

const order = { tenantId: "acme", filter: {} };

function redriven(world: World, taskId: string, redrivenTo: string): void {
  world.tasks.set(taskId, { ...(world.tasks.get(taskId) as RetryTask), redrivenTo });
}

it("counts the open part of the set, freezes it by time, and stores nothing for a dry run", async () => {
  const world = new World(10);
  redriven(world, "0100-0003", "0150-before");
  const jobs = world.process();
  const job = await jobs.start({ ...order, dryRun: true });
  expect(job).toMatchObject({ status: "DONE", total: 9, redriven: 0 });
  expect(world.filters[0]).toEqual({ status: "EXHAUSTED", finishedTo: world.clock.now() + 1 });
  expect(await jobs.list("acme")).toEqual([]);
});

it("never exceeds its rate", async () => {
  const world = new World(20);
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10 });
  redriven(world, "0100-0007", "0400-somebody-else");
  await world.pass(10_000);
  const done = { status: "DONE", total: 20, redriven: 19, skipped: 1 };
  expect(await jobs.get(redriveId, "acme")).toMatchObject(done);
  world.made.forEach(({ atMs }, n) => {
    expect(n + 1).toBeLessThanOrEqual(1 + atMs / 100 + 1e-6);
  });
  expect(world.made.at(-1)?.atMs).toBeLessThanOrEqual(2100);
});

it("sends the first one at once, and the second one not before its time", async () => {
  const world = new World(5);
  const jobs = world.process();
  await jobs.start({ ...order, ratePerSecond: 0.1 });
  await world.pass(9950);
  expect(world.made).toHaveLength(1);
  await world.pass(1000);
  expect(world.made).toHaveLength(2);
  await jobs.stop();
});

it("ends when it is canceled, and stays canceled", async () => {
  const world = new World(100);
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1 });
  await world.pass(2500);
  expect((await jobs.cancel(redriveId, "acme"))?.status).toBe("CANCELLED");
  const before = world.made.length;
  await world.pass(60_000);
  expect(world.made.length).toBe(before);
  expect((await jobs.cancel(redriveId, "acme"))?.status).toBe("CANCELLED");
  expect(await jobs.cancel(redriveId, "other")).toBeUndefined();
  await expect(jobs.resume(redriveId, "acme")).rejects.toMatchObject({
    code: "TASK_STATE_CONFLICT",
  });
});

it("says why it failed, and can be resumed", async () => {
  const world = new World(1);
  world.failures = [new Error("the disk is gone")];
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, taskIds: ["0100-0000", "0100-0000"] });
  await world.pass(1000);
  const failed = { status: "FAILED", error: "the disk is gone", total: 1 };
  expect(await jobs.list("acme")).toMatchObject([failed]);
  await jobs.resume(redriveId, "acme");
  await world.pass(1000);
  expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 1 });
});

it("waits for a store that does not respond", async () => {
  const world = new World(3);
  world.failures = [1, 2, 3].map(() => serviceError("STORE_UNAVAILABLE", "gone"));
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1000 });
  await world.pass(5000);
  expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 3 });
});

it("skips a dead letter without a policy, names it, and continues with the next", async () => {
  const world = new World(3);
  world.failures = [serviceError("UNKNOWN_POLICY", 'there is no policy "gone"')];
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1 });
  await world.pass(1500);
  expect(world.made.map(({ taskId }) => taskId)).toEqual(["0100-0001", "0100-0002"]);
  expect(world.made[0]?.atMs).toBe(0);
  const detail = 'there is no policy "gone"';
  const skips = [{ reason: "unknown-policy", count: 1, detail, taskIds: ["0100-0000"] }];
  const done = { status: "DONE", total: 3, redriven: 2, skipped: 1, skips };
  expect(await jobs.get(redriveId, "acme")).toMatchObject(done);
});

it("names the first twenty skipped dead letters, and counts all", async () => {
  const world = new World(50);
  world.failures = Array.from({ length: 50 }, () => serviceError("UNKNOWN_POLICY", "none"));
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 0.1 });
  await world.pass(1000);
  const job = await jobs.get(redriveId, "acme");
  expect(job).toMatchObject({ status: "DONE", redriven: 0, skipped: 50, skips: [{ count: 50 }] });
  expect(job?.skips[0]?.taskIds).toHaveLength(20);
});

describe("a redrive that its process did not finish", () => {
  it("is rejected with an invalid rate or canary", async () => {
    const jobs = new World(1).process();
    const start = (order: object) => jobs.start({ tenantId: "t", filter: {}, ...order });
    for (const ratePerSecond of [0, -1, Number.NaN, 1e9]) {
      await expect(start({ ratePerSecond })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    await expect(start({ canary: 1e9 })).rejects.toThrow("canary must be 0 to 100, got 1000000000");
    const halved = { code: "INVALID_ARGUMENT", message: "canary must be an integer, got 2.5" };
    await expect(start({ canary: 2.5 })).rejects.toMatchObject(halved);
    await expect(start({ taskIds: [] })).rejects.toThrow(
      "the number of taskIds must be 1 to 1000, got 0",
    );
    expect(await jobs.list("t")).toEqual([]);
  });

  it("continues from where it stopped, and redrives nothing twice", async () => {
    const world = new World(50);
    const before = world.process();
    const { redriveId } = await before.start({ ...order, ratePerSecond: 10 });
    await world.pass(2000);
    await before.stop();
    const made = world.made.length;
    expect(made).toBeGreaterThan(10);
    await world.pass(10_000);
    expect(world.made.length).toBe(made);
    const after = world.process();
    await after.open();
    await world.pass(10_000);
    const done = { status: "DONE", total: 50, redriven: 50, skipped: 0 };
    expect(await after.get(redriveId, "acme")).toMatchObject(done);
    expect(new Set(world.made.map(({ taskId }) => taskId)).size).toBe(50);
    expect(world.made).toHaveLength(50);
    await after.stop();
  });

  it("stays paused or canceled", async () => {
    const world = new World(50);
    const before = world.process();
    const { redriveId } = await before.start({ ...order, ratePerSecond: 10 });
    await world.pass(1000);
    expect((await before.pause(redriveId, "acme"))?.status).toBe("PAUSED");
    await before.stop();
    const made = world.made.length;
    const after = world.process();
    await after.open();
    await world.pass(60_000);
    expect(world.made.length).toBe(made);
    expect((await after.resume(redriveId, "acme"))?.status).toBe("RUNNING");
    await world.pass(60_000);
    expect(await after.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 50 });
    await after.stop();
  });

  it("is taken over by another node once the lease has expired, and not before", async () => {
    const world = new World(50);
    const dead = world.process(false);
    await dead.start({ ...order, ratePerSecond: 10 });
    await world.pass(1000);
    await dead.stop();
    const made = world.made.length;
    const other = world.process(false, "node-2");
    await other.open();
    await world.pass(10_000);
    expect(world.made.length).toBe(made);
    await world.pass(30_000);
    expect(world.made).toHaveLength(50);
    await other.stop();
  });
});

describe("a canary", () => {
  it("lets the rest follow if it succeeds", async () => {
    const world = new World(20);
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1000, canary: 5 });
    await world.pass(5000);
    expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 20 });
  });

  it("pauses the redrive if more than a fifth of it fails, until it is resumed", async () => {
    const world = new World(20);
    world.status = "PENDING";
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1000, canary: 5 });
    await world.pass(5000);
    const paused = { status: "PAUSED", redriven: 5, error: expect.stringContaining("5 of the") };
    expect(await jobs.get(redriveId, "acme")).toMatchObject(paused);
    await jobs.resume(redriveId, "acme");
    await world.pass(5000);
    const done = { status: "DONE", redriven: 20, error: null };
    expect(await jobs.get(redriveId, "acme")).toMatchObject(done);
  });

  it("lets the rest follow if exactly a fifth of it fails", async () => {
    const world = new World(20);
    world.status = "IN_FLIGHT";
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 1000, canary: 5 });
    await world.pass(1000);
    const canary = [...world.tasks.values()].filter(({ taskId }) => taskId.startsWith("0300"));
    expect(canary).toHaveLength(5);
    for (const [index, task] of canary.entries()) {
      world.tasks.set(task.taskId, { ...task, status: index === 0 ? "PENDING" : "SUCCEEDED" });
    }
    await world.pass(5000);
    expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 20 });
  });

  it("ends with its first attempts, and the lost time is not caught up in a burst", async () => {
    const world = new World(100);
    world.status = "IN_FLIGHT";
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10, canary: 5 });
    await world.pass(60_000);
    expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "RUNNING", redriven: 5 });
    for (const task of world.tasks.values()) {
      if (task.taskId.startsWith("0300"))
        world.tasks.set(task.taskId, { ...task, status: "SUCCEEDED" });
    }
    await world.pass(1000);
    expect(world.made.length).toBeGreaterThan(10);
    expect(world.made.length).toBeLessThanOrEqual(17);
    await jobs.stop();
  });
});

it("pauses when the circuit of a destination opens, not when it was open before", async () => {
  const world = new World(100);
  const closed = blankDestination("acme", "shop");
  world.rows = [{ ...closed, breakerState: "OPEN", openCount: 1 }];
  const jobs = world.process();
  const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10 });
  await world.pass(2000);
  expect((await jobs.get(redriveId, "acme"))?.status).toBe("RUNNING");
  // Nor when another destination of the tenant has trouble.
  const other = { ...closed, name: "other" };
  world.rows = [closed, other];
  await world.pass(1000);
  world.rows = [closed, { ...other, breakerState: "OPEN", openCount: 1 }];
  await world.pass(1000);
  expect((await jobs.get(redriveId, "acme"))?.status).toBe("RUNNING");
  world.rows = [{ ...closed, breakerState: "OPEN", openCount: 1 }];
  await world.pass(1000);
  const paused = { status: "PAUSED", error: expect.stringContaining("circuit of shop opened") };
  expect(await jobs.get(redriveId, "acme")).toMatchObject(paused);
});

describe("a redrive waits for the destination", () => {
  const open = (openUntil: number): DestinationRow => ({
    ...blankDestination("acme", "shop"),
    breakerState: "OPEN",
    openCount: 1,
    openUntil,
  });

  it("while its circuit is open, also after it was resumed", async () => {
    const world = new World(20);
    world.rows = [open(world.clock.now() + 35_000)];
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10 });
    await world.pass(1000);
    await jobs.pause(redriveId, "acme");
    await jobs.resume(redriveId, "acme");
    await world.pass(33_000);
    expect(world.made).toHaveLength(0);
    const waiting = { status: "RUNNING", waitsFor: "the open circuit of shop" };
    expect(await jobs.get(redriveId, "acme")).toMatchObject(waiting);
    world.rows = [];
    await world.pass(3000);
    expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 20 });
  });

  it("while it is paused", async () => {
    const world = new World(5);
    world.rows = [{ ...blankDestination("acme", "shop"), pausedAt: 1 }];
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10 });
    await world.pass(60_000);
    expect(world.made).toHaveLength(0);
    expect((await jobs.get(redriveId, "acme"))?.waitsFor).toBe("shop, which is paused");
    world.rows = [];
    await world.pass(2000);
    expect((await jobs.get(redriveId, "acme"))?.status).toBe("DONE");
  });

  it("with one task at a time as a probe, if nothing else probes it", async () => {
    const world = new World(20);
    const jobs = world.process();
    world.rows = [open(world.clock.now() + 1000)];
    await jobs.start({ ...order, ratePerSecond: 10 });
    await world.pass(1500);
    expect(world.made).toHaveLength(0);
    await world.pass(1000);
    expect(world.made).toHaveLength(1);
    // The probe has failed, and the circuit is open for longer.
    world.rows = [{ ...open(world.clock.now() + 30_000), openCount: 2 }];
    await world.pass(29_000);
    expect(world.made).toHaveLength(1);
    await jobs.stop();
  });

  it("while its guards hold so many tasks as the redrive creates in a second", async () => {
    const world = new World(100);
    world.status = "PENDING";
    world.attemptNumber = 0;
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 20 });
    await world.pass(60_000);
    expect(world.made).toHaveLength(20);
    const { waitsFor } = (await jobs.get(redriveId, "acme")) ?? {};
    expect(waitsFor).toBe("shop: 20 of its tasks have not started");
    world.startAll();
    await world.pass(500);
    expect(world.made.length).toBeGreaterThan(20);
    await jobs.stop();
  });

  it("and continues with those of other destinations meanwhile", async () => {
    const world = new World(10);
    for (const [n, task] of [...world.tasks.values()].entries()) {
      if (n % 2 === 0) world.tasks.set(task.taskId, { ...task, destination: "other" });
    }
    world.rows = [open(world.clock.now() + 60_000)];
    const jobs = world.process();
    const { redriveId } = await jobs.start({ ...order, ratePerSecond: 10 });
    await world.pass(30_000);
    expect(world.made.map(({ taskId }) => Number(taskId.at(-1)) % 2)).toEqual([0, 0, 0, 0, 0]);
    world.rows = [];
    await world.pass(2000);
    expect(await jobs.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 10 });
  });
});

it("looks only for running redrives, however many have ended", async () => {
  const world = new World(1);
  const first = world.process();
  for (let n = 0; n < 30; n++) await first.start(order);
  await world.pass(1000);
  await first.stop();
  const reads = { listed: 0, got: 0 };
  const { get, list } = world.documents;
  Object.assign(world.documents, {
    get: (...ref: Parameters<typeof get>) => {
      reads.got++;
      return get(...ref);
    },
    list: async (...query: Parameters<typeof list>) => {
      const page = await list(...query);
      reads.listed += page.documents.length;
      return page;
    },
  });
  const next = world.process();
  await next.open();
  await world.pass(6000);
  // The marks of the ended redrives are gone now.
  Object.assign(reads, { listed: 0, got: 0 });
  await world.pass(60_000);
  expect(reads).toEqual({ listed: 0, got: 0 });
  expect(await next.list("acme")).toHaveLength(30);
  await next.stop();
});

it("continues a redrive that was resumed while its mark was removed", async () => {
  const world = new World(20);
  const first = world.process();
  const { redriveId } = await first.start({ ...order, ratePerSecond: 1 });
  await world.pass(100);
  await first.pause(redriveId, "acme");
  await world.pass(6000);
  await first.resume(redriveId, "acme");
  await world.pass(100);
  await first.stop();
  const second = world.process();
  await second.open();
  await world.pass(30_000);
  expect(await second.get(redriveId, "acme")).toMatchObject({ status: "DONE", redriven: 20 });
  await second.stop();
});
