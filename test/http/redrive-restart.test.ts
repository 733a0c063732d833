/** A redrive outlives its process: killed in the middle, again and again, it ends with its set. */
// needs: build
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Caller, callerOn, openTarget, type Target } from "./front.ts";

const SCRIPT = fileURLToPath(new URL("./served-child.mjs", import.meta.url));
const SET = 400;
const KILLS = 3;

const folder = mkdtempSync(join(tmpdir(), "redrive-restart-"));
let target: Target;
let child: ChildProcess;
beforeAll(async () => {
  target = await openTarget();
});
afterEach(() => child.kill("SIGKILL"));
afterAll(async () => {
  await target.close();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(file: string): Promise<Caller> {
  child = fork(SCRIPT, [join(folder, file)], { execArgv: [] });
  const [port] = await once(child, "message");
  return callerOn(port as number);
}

async function kill(caller: Caller): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  caller.close();
}

/** Dead letters, and one that ends after the set was frozen. */
async function bury(caller: Caller, count: number): Promise<void> {
  target.statuses = Array.from({ length: count }, () => 400);
  const task = { targetUrl: target.url, policy: { maxAttempts: 1 } };
  const body = Array.from({ length: count }, () => task);
  const answer = await caller.call({ path: "/retry-tasks/batch", body });
  expect(answer.json.accepted).toBe(count);
  await until(async () => (await all(caller, "?status=EXHAUSTED")).length === count);
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue()));
}

async function all(caller: Caller, query = "") {
  const tasks: { taskId: string; redrivenFrom: string | null; redrivenTo: string | null }[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const sep = query === "" ? "?" : `${query}&`;
    const page = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const path = `/retry-tasks${sep}limit=250${page}`;
    const { json } = await caller.call({ method: "GET", path });
    tasks.push(...json.tasks);
    cursor = json.cursor;
  }
  return tasks;
}

const jobOf = async (caller: Caller, redriveId: string) =>
  (await caller.call({ method: "GET", path: `/redrives/${redriveId}` })).json;

test("killed in the middle, it makes as many new tasks as its set had, each once", async () => {
  let caller = await serve("kill.db");
  await bury(caller, SET);
  const start = { filter: {}, ratePerSecond: 150 };
  const { redriveId, total } = (await caller.call({ path: "/redrives", body: start })).json;
  expect(total).toBe(SET);
  for (let kills = 1; kills <= KILLS; kills++) {
    const enough = (SET * kills) / (KILLS + 1);
    await until(async () => (await jobOf(caller, redriveId)).redriven >= enough);
    await kill(caller);
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
  caller.close();
});

test("paused and killed it stays paused; resumed it ends, and later dead letters are not its own", async () => {
  let caller = await serve("pause.db");
  await bury(caller, 40);
  const start = { filter: {}, ratePerSecond: 10 };
  const { redriveId } = (await caller.call({ path: "/redrives", body: start })).json;
  const paused = await caller.call({ path: `/redrives/${redriveId}/pause` });
  expect(paused.json.status).toBe("PAUSED");
  await kill(caller);
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
  caller.close();
});
