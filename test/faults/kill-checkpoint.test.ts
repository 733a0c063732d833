/**
 * Tests that kill -9 during commits and checkpoints is never mistaken for damage: the next start has
 * every acknowledged task.
 */
// needs: build
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { Child } from "./child.ts";
import { readTasks } from "./read-tasks.ts";

/** `npm run test:long` makes more of them. */
const CYCLES = Number(process.env["REDRIVE_KILLS"] ?? 6);
/** A body of 15 pages: a few hundred tasks fill the log and cause a checkpoint. */
const BODY_BYTES = 60_000;
const MAX_TASKS = 600;

const folder = mkdtempSync(join(tmpdir(), "redrive-checkpoints-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a process that is killed while it writes large tasks", () => {
  it(`starts again after each of ${CYCLES} kills, with every task`, {
    timeout: 600_000,
  }, async () => {
    const file = join(folder, "redrive.db");
    const random = seededRandom("checkpoints");
    const acknowledged = new Set<string>();
    const options = {
      file,
      targetUrl: "http://127.0.0.1:9999/",
      mode: "store",
      callers: 16,
      bodyBytes: BODY_BYTES,
    } as const;
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = new Child({ ...options, from: cycle * 1_000_000, count: 1_000_000 });
      await child.acknowledgedCount(1 + Math.floor(random.next() * MAX_TASKS));
      await child.kill();
      expect(child.stderr).toBe("");
      for (const [, taskId] of child.acknowledged()) acknowledged.add(taskId);
    }
    // The process never closed the file, so only checkpoints have written to it.
    const megabytes = Math.floor(statSync(file).size / 2 ** 20);
    const last = new Child({ ...options, from: CYCLES * 1_000_000, count: 1 });
    expect(await last.ended(), last.stderr).toBe(0);
    const stored = new Set(readTasks(file, { check: true }).map(({ taskId }) => taskId));
    const lost = [...acknowledged].filter((taskId) => !stored.has(taskId));
    console.log(
      `kills ${CYCLES}, acknowledged ${acknowledged.size}, checkpoints moved ${megabytes} MiB`,
    );
    expect(lost).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(CYCLES);
    expect(megabytes).toBeGreaterThan(0);
  });
});
