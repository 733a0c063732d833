/** Tests of the repair of a file that was written with a clock a year ahead. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, seededRandom, virtualClock } from "@redrive/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { notStarted } from "../../../deliver/attempt.ts";
import { Engine } from "../../../engine/engine.ts";
import { pinnedTask, T0, TENANT } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { readSqliteClock, repairSqliteClock } from "./clock-repair.ts";

const YEAR_MS = 365 * 86_400_000;

function tempFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "redrive-clock-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, "r.db");
}

/** A process on the file at that time. The first attempt of each task fails, later ones succeed. */
async function open(file: string, at: number) {
  const store = sqliteStore(file);
  const clock = virtualClock(at);
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: at };
  await store.addPolicy({ ...policy, document: JSON.stringify({ initialDelayMs: 10_000 }) });
  const sent: string[] = [];
  const close = () => store.close();
  try {
    const engine = await Engine.open({
      clock,
      random: seededRandom("repair"),
      store,
      nodeId: `node-${at}`,
      deliver: (task, _, done) => {
        sent.push(task.taskId);
        const status = task.attemptNumber === 1 ? 500 : 200;
        const outcome: Outcome = { kind: status === 200 ? "success" : "status", status };
        clock.alarm(5, () => done({ ...notStarted(outcome, null), status }));
      },
    });
    await engine.start();
    const enqueue = async (inMs: number) => {
      const now = engine.now();
      const task = pinnedTask({ createdAt: now, scheduledAt: now + inMs });
      const created = new Promise((done, failed) => engine.create(task, null, done, failed));
      await clock.advance(1);
      await created;
      return task.taskId;
    };
    const stop = async () => {
      await clock.run(engine.stop(0));
      await close();
    };
    return { clock, store, engine, sent, enqueue, stop };
  } catch (error) {
    await close();
    throw error;
  }
}

describe("a file that was written a year ahead", () => {
  it("is refused until it is repaired; then its tasks continue, and none is sent early", async () => {
    const file = tempFile();
    const before = await open(file, T0);
    const distant = await before.enqueue(2 * YEAR_MS);
    await before.stop();
    const wrong = await open(file, T0 + YEAR_MS);
    const retried = await wrong.enqueue(0);
    const scheduled = await wrong.enqueue(20_000);
    await wrong.clock.advance(1000);
    expect(wrong.sent).toEqual([retried]);
    await wrong.stop();

    await expect(open(file, T0 + 1000)).rejects.toMatchObject({ code: "CLOCK_BEHIND" });
    expect(repairSqliteClock(file, T0 + 1000)).toMatchObject({ waitingTasks: 2 });
    expect(readSqliteClock(file)).toBe(T0 + 1000);
    expect(repairSqliteClock(file, T0 + 1000)).toEqual({ aheadMs: 0, waitingTasks: 0 });

    const right = await open(file, T0 + 1000);
    expect(right.engine.clock().skewMs).toBe(0);
    const { nextAttemptAt } = (await right.store.query.get(TENANT, distant)) ?? {};
    expect(nextAttemptAt).toBe(T0 + 2 * YEAR_MS);
    const soon = await right.enqueue(30_000);
    await right.clock.advance(18_000);
    expect(right.sent).not.toContain(scheduled);
    await right.clock.advance(11_000);
    expect(right.sent).toContain(retried);
    expect(right.sent).toContain(scheduled);
    expect(right.sent).not.toContain(soon);
    await right.clock.advance(2000);
    expect(right.sent).toContain(soon);
    await right.stop();
  });
});
