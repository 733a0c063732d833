/** What outlives a process that is killed: a redrive ends with its set, each end has one callback. */
// needs: build
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { allTasks as all, Served } from "./child-server.ts";
import { type Caller, openTarget, type Target } from "./test-server.ts";

const SET = 150;
const KILLS = 3;

const folder = mkdtempSync(join(tmpdir(), "redrive-restart-"));
let target: Target;
let served: Served;
beforeAll(async () => {
  target = await openTarget();
});
afterEach(() => served.kill());
afterAll(async () => {
  await target.close();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(file: string): Promise<Caller> {
  served = await Served.start(join(folder, file));
  return served.caller;
}

/** Dead letters. */
async function bury(caller: Caller, count: number): Promise<void> {
  target.statuses = Array.from({ length: count }, () => 400);
  const task = { targetUrl: target.url, policy: { maxAttempts: 1 } };
  const body = Array.from({ length: count }, () => task);
  const answer = await caller.call({ path: "/retry-tasks/batch", body });
  expect(answer.json.accepted).toBe(count);
  await until(async () => (await counted(caller, "EXHAUSTED")) === count);
}

/**
 * Tasks of these statuses, by the counts that the store keeps: one look for all of them, since a
 * task that moves between two looks would be in neither.
 */
async function counted(caller: Caller, ...statuses: readonly string[]): Promise<number> {
  const { json } = await caller.call({ method: "GET", path: "/destinations" });
  const counts: readonly { tasks: Record<string, number> }[] = json.destinations;
  const all = counts.flatMap(({ tasks }) => statuses.map((status) => tasks[status] ?? 0));
  return all.reduce((sum, count) => sum + count, 0);
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue()));
}

const jobOf = async (caller: Caller, redriveId: string) =>
  (await caller.call({ method: "GET", path: `/redrives/${redriveId}` })).json;

test("killed in the middle, it makes as many new tasks as its set had, each once", async () => {
  let caller = await serve("kill.db");
  await bury(caller, SET);
  const start = { filter: {}, ratePerSecond: 60 };
  const { redriveId, total } = (await caller.call({ path: "/redrives", body: start })).json;
  expect(total).toBe(SET);
  for (let kills = 1; kills <= KILLS; kills++) {
    const enough = (SET * kills) / (KILLS + 1);
    await until(async () => (await jobOf(caller, redriveId)).redriven >= enough);
    await served.kill();
    caller = await serve("kill.db");
    expect((await jobOf(caller, redriveId)).status).toBe("RUNNING");
  }
  await until(async () => (await jobOf(caller, redriveId)).status !== "RUNNING");
  const done = { status: "DONE", total: SET, redriven: SET, skipped: 0, error: null };
  expect(await jobOf(caller, redriveId)).toMatchObject(done);
  const tasks = await all(caller);
  const sources = tasks.filter(({ redrivenTo }) => redrivenTo !== null);
  const made = tasks.filter(({ redrivenFrom }) => redrivenFrom !== null);
  expect(tasks).toHaveLength(2 * SET);
  expect(new Set(made.map(({ redrivenFrom }) => redrivenFrom)).size).toBe(SET);
  expect(new Set(sources.map(({ redrivenTo }) => redrivenTo)).size).toBe(SET);
});

test("paused and killed it stays paused; resumed it ends, and later dead letters are not its own", async () => {
  let caller = await serve("pause.db");
  await bury(caller, 40);
  const start = { filter: {}, ratePerSecond: 10 };
  const { redriveId } = (await caller.call({ path: "/redrives", body: start })).json;
  const paused = await caller.call({ path: `/redrives/${redriveId}/pause` });
  expect(paused.json.status).toBe("PAUSED");
  await served.kill();
  caller = await serve("pause.db");
  const { status, redriven } = await jobOf(caller, redriveId);
  expect([status, redriven]).toEqual(["PAUSED", paused.json.redriven]);
  target.statuses = [400];
  const late = { targetUrl: target.url, policy: { maxAttempts: 1 } };
  await caller.call({ body: late, headers: { prefer: "wait=20" } });
  await caller.call({ path: `/redrives/${redriveId}/resume` });
  await until(async () => (await jobOf(caller, redriveId)).status !== "RUNNING");
  expect(await jobOf(caller, redriveId)).toMatchObject({ status: "DONE", redriven: 40 });
  expect(await all(caller)).toHaveLength(81);
  const again = await caller.call({ path: `/redrives/${redriveId}/resume` });
  expect([again.status, again.json.code]).toEqual([409, "TASK_STATE_CONFLICT"]);
});

test("killed while tasks end, each end has its callback, and only one", async () => {
  let caller = await serve("callbacks.db");
  const hook = await openTarget();
  const policy = { maxAttempts: 5, initialDelayMs: 50 };
  const task = { targetUrl: target.url, policy, callbackUrl: hook.url };
  const body = Array.from({ length: SET }, () => task);
  target.statuses = Array.from({ length: SET }, (_, n) => (n % 3 === 0 ? 503 : 200));
  // One retry a second, which is the default, would make this a test of patience.
  const path = `/destinations/${encodeURIComponent(target.origin)}`;
  await caller.call({ method: "PUT", path, body: { retryBudget: false, breaker: false } });
  await caller.call({ path: "/retry-tasks/batch", body });
  for (let kills = 0; kills < KILLS; kills++) {
    await served.kill();
    caller = await serve("callbacks.db");
  }
  await until(async () => (await counted(caller, "PENDING", "IN_FLIGHT")) === 0);
  const tasks = await all(caller);
  const causes = tasks.filter(({ callbackUrl }) => callbackUrl !== null);
  const told = tasks.map(({ labels }) => labels["redrive.callback"]).filter(Boolean);
  expect(causes).toHaveLength(SET);
  expect(told.sort()).toEqual(causes.map(({ taskId }) => taskId).sort());
  expect(tasks).toHaveLength(2 * SET);
  await hook.close();
});
