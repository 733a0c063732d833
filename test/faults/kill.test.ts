/** Tests that kill -9 loses nothing: repeated kills under load on a real file. */
// needs: build
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { Child } from "./child.ts";
import { CountingTarget } from "./counting-target.ts";
import { readTasks } from "./read-tasks.ts";

/** `npm run test:long` makes more of them. */
const CYCLES = Number(process.env["REDRIVE_KILLS"] ?? 20);
const MAX_ATTEMPTS = 6;
const READY_MS = 2000;

const folder = mkdtempSync(join(tmpdir(), "redrive-kill-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a process that is killed repeatedly", () => {
  it(`loses nothing in ${CYCLES} kills`, { timeout: 600_000 }, async () => {
    const file = join(folder, "redrive.db");
    const target = new CountingTarget(0.3);
    await target.listen();
    const random = seededRandom("kills");
    const acknowledged = new Map<number, string>();
    const ready: number[] = [];
    const wall: number[] = [];
    let from = 0;
    let inFlight = 0;
    const note = (child: Child) => {
      ready.push(child.readyMs - child.waitedMs);
      wall.push(child.readyMs);
      for (const [number, taskId] of child.acknowledged()) {
        const known = acknowledged.get(number) ?? taskId;
        expect(known).toBe(taskId);
        acknowledged.set(number, taskId);
      }
    };

    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = new Child({
        file,
        targetUrl: target.url,
        mode: "load",
        from,
        count: 1_000_000,
        callers: 16,
      });
      await child.said("ack");
      await new Promise((resolve) => setTimeout(resolve, Math.floor(random.next() * 150)));
      await child.kill();
      note(child);
      inFlight += readTasks(file).filter(({ status }) => status === "IN_FLIGHT").length;
      // Tasks without a response are submitted again, with the same keys.
      from = Math.max(0, ...acknowledged.keys()) - 50;
    }

    const child = new Child({
      file,
      targetUrl: target.url,
      mode: "drain",
      from: 0,
      count: 0,
      callers: 1,
    });
    await child.said("stopped");
    note(child);
    target.close();

    const tasks = readTasks(file, { check: true });
    const ids = new Set(tasks.map(({ taskId }) => taskId));
    const lost = [...acknowledged.values()].filter((taskId) => !ids.has(taskId));
    const ended = tasks.filter(({ status }) => /SUCCEEDED|EXHAUSTED|CANCELLED/.test(status));
    const keys = new Set(tasks.map(({ idempotencyKey }) => idempotencyKey));
    const mostCalls = Math.max(...target.calls.values());
    const slowest = Math.max(...ready);
    const quickest = Math.min(...wall);
    console.log(
      `kills ${CYCLES}, tasks ${tasks.length}, acknowledged ${acknowledged.size}, in flight at kills ${inFlight}, ` +
        `repeats after success ${target.repeats}, most calls ${mostCalls}, slowest ready in ${slowest} ms of its own, ` +
        `by the wall ${quickest} ms at best and ${Math.max(...wall)} at most`,
    );
    expect(lost).toEqual([]);
    expect(ended).toHaveLength(tasks.length);
    expect(keys.size).toBe(tasks.length);
    expect(mostCalls).toBeLessThanOrEqual(MAX_ATTEMPTS);
    expect(target.repeats).toBeLessThanOrEqual(inFlight);
    // Each start, minus the time it waited for a core. By the wall clock only the fastest counts,
    // because on a busy machine every start may have waited.
    expect(slowest).toBeLessThan(READY_MS);
    expect(quickest).toBeLessThan(READY_MS);
  });
});
