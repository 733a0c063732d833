/** Tests of repeating tasks: when they run, that they never overlap, and how they stop. */
import { describe, expect, test } from "vitest";
import { deferred, START_AT, world } from "../call/world.testing.ts";
import { RepeatingTask } from "./worker.ts";

function setup(run: (ranAt: readonly number[]) => Promise<number | undefined>) {
  const { clock } = world();
  const ranAt: number[] = [];
  const errors: unknown[] = [];
  const task = new RepeatingTask({
    clock,
    everyMs: 100,
    run: () => {
      ranAt.push(clock.now() - START_AT);
      return run(ranAt);
    },
    onError: (error) => errors.push(error),
  });
  return { clock, ranAt, errors, task };
}

describe("a repeating task", () => {
  test("runs again after each run, also if it fails", async () => {
    const { clock, ranAt, errors, task } = setup(async (all) => {
      if (all.length === 2) throw new Error("once");
      return undefined;
    });
    task.start();
    await clock.advance(350);
    expect(ranAt).toEqual([100, 200, 300]);
    expect(errors).toHaveLength(1);
    await task.stop();
    await clock.advance(1000);
    expect(ranAt).toHaveLength(3);
  });

  test("runs earlier if it is asked to, and not later", async () => {
    const { clock, ranAt, task } = setup(async () => undefined);
    task.start();
    task.runWithin(30);
    task.runWithin(60);
    task.runWithin(500);
    await clock.advance(200);
    expect(ranAt).toEqual([30, 130]);
  });

  test("chooses the next wait itself", async () => {
    const { clock, ranAt, task } = setup(async (all) => (all.length < 3 ? 5 : undefined));
    task.start();
    await clock.advance(150);
    expect(ranAt).toEqual([100, 105, 110]);
  });

  test("never runs twice at once: a request during a run is answered after it", async () => {
    const first = deferred();
    const { clock, ranAt, task } = setup(async (all) => {
      if (all.length === 1) await first.promise;
      return undefined;
    });
    task.start();
    await clock.advance(100);
    task.runWithin(0);
    await clock.advance(500);
    expect(ranAt).toEqual([100]);
    first.resolve();
    await clock.advance(0);
    expect(ranAt).toEqual([100, 600]);
  });

  test("stops when its run has ended", async () => {
    const run = deferred();
    const { clock, task } = setup(async () => {
      await run.promise;
      return undefined;
    });
    task.start();
    await clock.advance(100);
    let isStopped = false;
    const stopped = task.stop().then(() => {
      isStopped = true;
    });
    await clock.advance(10);
    expect(isStopped).toBe(false);
    run.resolve();
    await stopped;
    await clock.advance(1000);
    expect(clock.pending()).toBe(0);
  });
});
