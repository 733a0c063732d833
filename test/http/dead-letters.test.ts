/**
 * Tests of dead letters over HTTP: listed, grouped, redriven once at a given rate, and discarded.
 */
import type { Redrive } from "@redrive/service";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await openTestServer();
});
afterEach(() => server.close());

const get = async (path: string) => (await server.call({ method: "GET", path })).json;

/** Tasks that fail at once. */
async function bury(count: number, status = 400): Promise<string[]> {
  server.target.statuses = Array.from({ length: count }, () => status);
  const done = endings(server.redrive, count);
  const body = { targetUrl: server.target.url, policy: { maxAttempts: 1 }, body: "payload" };
  const ids = await Promise.all(
    Array.from({ length: count }, async () => (await server.call({ body })).json.taskId),
  );
  await done;
  return ids;
}

async function finished(redriveId: string) {
  for (;;) {
    const job = await get(`/redrives/${redriveId}`);
    if (job.status !== "RUNNING") return job;
  }
}

test("I13: EXHAUSTED tasks are the dead letters, and list, groups and metrics agree", async () => {
  await bury(7);
  const dead = await get("/dead-letters?limit=250");
  const listed = await get("/retry-tasks?status=EXHAUSTED&limit=250");
  expect(dead.tasks).toHaveLength(7);
  expect(listed.tasks).toEqual(dead.tasks);
  const { groups, complete } = await get("/dead-letters?group=true");
  expect(complete).toBe(true);
  expect(groups).toMatchObject([
    { destination: server.target.origin, reason: "not-retryable", count: 7 },
  ]);
  const { text } = await server.call({ method: "GET", path: "/metrics" });
  expect(text).toContain('retry_tasks{status="EXHAUSTED"} 7');
  expect(text).toContain('retry_exhausted_total{reason="not-retryable",policy="inline"} 7');
  expect(text).toContain('retry_attempts_total{outcome="4xx",policy="inline"} 7');
});

test("a dry run only counts", async () => {
  await bury(3);
  const { status, json } = await server.call({
    path: "/redrives",
    body: { filter: {}, dryRun: true },
  });
  expect([status, json.status, json.total, json.redriven]).toEqual([200, "DONE", 3, 0]);
  expect((await get("/retry-tasks")).tasks).toHaveLength(3);
});

test("a redrive creates a new task for each with its key, and keeps the old one readable", async () => {
  const ids = await bury(3);
  const done = endings(server.redrive, 3);
  const { status, headers, json } = await server.call({
    path: "/redrives",
    body: { filter: { reason: "not-retryable" }, ratePerSecond: 1000 },
  });
  expect([status, json.total]).toEqual([202, 3]);
  expect(headers.location).toBe(`/redrives/${json.redriveId}`);
  await done;
  expect(await finished(json.redriveId)).toMatchObject({ status: "DONE", redriven: 3, skipped: 0 });
  for (const taskId of ids) {
    const old = await get(`/retry-tasks/${taskId}`);
    expect(old.status).toBe("EXHAUSTED");
    expect(await get(`/retry-tasks/${old.redrivenTo}`)).toMatchObject({
      status: "SUCCEEDED",
      redrivenFrom: taskId,
    });
  }
  const keys = server.target.received.map(({ headers }) => headers["idempotency-key"]);
  expect(keys.slice(3).sort()).toEqual([...ids].sort());
  expect((await get("/redrives")).redrives).toHaveLength(1);
});

test("I14, row 62: 50 concurrent redrives create one new task of each", async () => {
  const ids = await bury(5);
  const jobs = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const which = n % 2 === 0 ? { filter: {} } : { taskIds: ids };
      return (await server.call({ path: "/redrives", body: { ...which, ratePerSecond: 10_000 } }))
        .json;
    }),
  );
  const ended = await Promise.all(jobs.map(({ redriveId }) => finished(redriveId)));
  expect(ended.reduce((sum, { redriven }) => sum + redriven, 0)).toBe(5);
  expect((await get("/retry-tasks?limit=250")).tasks).toHaveLength(10);
});

test("a redrive keeps its rate and can be canceled", async () => {
  await bury(20);
  const { json } = await server.call({ path: "/redrives", body: { filter: {}, ratePerSecond: 2 } });
  const cancelled = await server.call({ path: `/redrives/${json.redriveId}/cancel` });
  expect(cancelled.json.status).toBe("CANCELLED");
  const job = await finished(json.redriveId);
  expect(job.redriven).toBeLessThanOrEqual(2);
  const unknown = await server.call({ path: "/redrives/nothing/cancel" });
  expect([unknown.status, unknown.json.code]).toEqual([404, "NOT_FOUND"]);
});

test("a failed canary stops the rest, and a resume sends it", async () => {
  await bury(8);
  server.target.statuses = [503, 503, 503];
  const body = { filter: {}, ratePerSecond: 1000, canary: 3 };
  const { json } = await server.call({ path: "/redrives", body });
  const paused = await finished(json.redriveId);
  expect(paused).toMatchObject({ status: "PAUSED", redriven: 3, finishedAt: null });
  expect(paused.error).toContain("of the first 3 failed");
  const resumed = await server.call({ path: `/redrives/${json.redriveId}/resume` });
  expect(resumed.json).toMatchObject({ status: "RUNNING", error: null });
  expect(await finished(json.redriveId)).toMatchObject({ status: "DONE", redriven: 8 });
});

describe("a redrive into an open circuit", () => {
  /** Dead letters of a destination whose breaker they have opened, for an hour, and a redrive of them. */
  async function redriveIntoOpen() {
    const path = "/destinations/hooks";
    const document = { breaker: { minCalls: 5, openMs: 3_600_000, maxOpenMs: 3_600_000 } };
    await server.call({ method: "PUT", path, body: document });
    server.target.statuses = Array(6).fill(503);
    const policy = { maxAttempts: 1, totalBudgetMs: 5000 };
    const body = { targetUrl: server.target.url, destination: "hooks", policy };
    const opened = once(server.redrive, "breaker.opened");
    for (let n = 0; n < 5; n++) {
      const done = endings(server.redrive, 1);
      await server.call({ path: "/retry-tasks", body });
      await done;
    }
    await opened;
    server.target.statuses = [];
    const order = { filter: { destination: "hooks" }, ratePerSecond: 1000 };
    const { redriveId } = (await server.call({ path: "/redrives", body: order })).json;
    const job = () => get(`/redrives/${redriveId}`);
    await expect.poll(async () => (await job()).waitsFor).toContain("the open circuit of hooks");
    const made = async () => (await get("/retry-tasks?limit=250")).tasks.length - 5;
    return { path, redriveId, job, made };
  }

  /** Resolves with the next event of a type. */
  const once = (redrive: Redrive, wanted: string) =>
    new Promise<Parameters<Parameters<Redrive["onEvent"]>[0]>[0]>((resolve) => {
      const remove = redrive.onEvent((event) => {
        if (event.type !== wanted) return;
        remove();
        resolve(event);
      });
    });

  test("waits and creates no task, until an operator closes the breaker", async () => {
    const { path, redriveId, made } = await redriveIntoOpen();
    expect(await made()).toBe(0);
    const closed = once(server.redrive, "breaker.closed");
    const changed = once(server.redrive, "destination.changed");
    const { status, json } = await server.call({ path: `${path}/close-breaker` });
    expect([status, json.breakerState]).toEqual([200, "CLOSED"]);
    expect(await closed).toMatchObject({ destination: "hooks" });
    const reason = "the breaker was closed by a caller without a key";
    expect(await changed).toMatchObject({ destination: "hooks", reason });
    expect(await finished(redriveId)).toMatchObject({
      status: "DONE",
      redriven: 5,
      waitsFor: null,
    });
    const succeeded = async () => (await get("/retry-tasks?status=SUCCEEDED")).tasks.length;
    await expect.poll(succeeded).toBe(5);
  });

  test("sends a task when an operator asks for one probe, and the rest if it succeeds", async () => {
    const { path, redriveId } = await redriveIntoOpen();
    const { status, json } = await server.call({ path: `${path}/probe` });
    expect(status).toBe(200);
    expect(json.openUntil).toBeLessThanOrEqual(server.redrive.now());
    expect(await finished(redriveId)).toMatchObject({ status: "DONE", redriven: 5 });
    expect((await get(path)).breakerState).toBe("CLOSED");
  });

  test("waits on after a probe that fails", async () => {
    const { path, job, made } = await redriveIntoOpen();
    server.target.statuses = [503];
    const ended = endings(server.redrive, 1);
    await server.call({ path: `${path}/probe` });
    await ended;
    await expect.poll(async () => (await get(path)).openUntil > server.redrive.now()).toBe(true);
    await expect.poll(async () => (await job()).waitsFor).toContain("the open circuit of hooks");
    expect([await made(), (await job()).status]).toEqual([1, "RUNNING"]);
  });
});

test("discarding requires a filter, and keeps everything else", async () => {
  const [first = ""] = await bury(3);
  await bury(2, 404);
  const remove = (query: string) =>
    server.call({ method: "DELETE", path: `/dead-letters${query}` });
  expect((await remove("")).status).toBe(400);
  expect((await remove("?lastStatus=404")).json).toEqual({ discarded: 2 });
  expect((await get("/dead-letters")).tasks).toHaveLength(3);
  expect((await remove("?createdFrom=0")).json).toEqual({ discarded: 3 });
  expect((await server.call({ method: "GET", path: `/retry-tasks/${first}` })).status).toBe(404);
  expect((await get("/destinations")).destinations).toEqual([]);
});
