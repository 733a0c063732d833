/** Dead letters over HTTP: found, grouped, redriven at a pace and once, discarded. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { endings, type Front, openFront } from "./test-server.ts";

let front: Front;
beforeEach(async () => {
  front = await openFront();
});
afterEach(() => front.close());

const get = async (path: string) => (await front.call({ method: "GET", path })).json;

/** Tasks that fail at once. */
async function bury(count: number, status = 400): Promise<string[]> {
  front.target.statuses = Array.from({ length: count }, () => status);
  const done = endings(front.redrive, count);
  const body = { targetUrl: front.target.url, policy: { maxAttempts: 1 }, body: "payload" };
  const ids = await Promise.all(
    Array.from({ length: count }, async () => (await front.call({ body })).json.taskId),
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
    { destination: front.target.origin, reason: "not-retryable", count: 7 },
  ]);
  const { text } = await front.call({ method: "GET", path: "/metrics" });
  expect(text).toContain('retry_tasks{status="EXHAUSTED"} 7');
  expect(text).toContain('retry_exhausted_total{reason="not-retryable",policy="inline"} 7');
  expect(text).toContain('retry_attempts_total{outcome="4xx",policy="inline"} 7');
});

test("a dry run only counts", async () => {
  await bury(3);
  const { status, json } = await front.call({
    path: "/redrives",
    body: { filter: {}, dryRun: true },
  });
  expect([status, json.status, json.total, json.redriven]).toEqual([200, "DONE", 3, 0]);
  expect((await get("/retry-tasks")).tasks).toHaveLength(3);
});

test("a redrive makes each a new task under its key, and keeps the old one readable", async () => {
  const ids = await bury(3);
  const done = endings(front.redrive, 3);
  const { status, headers, json } = await front.call({
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
  const keys = front.target.received.map(({ headers }) => headers["idempotency-key"]);
  expect(keys.slice(3).sort()).toEqual([...ids].sort());
  expect((await get("/redrives")).redrives).toHaveLength(1);
});

test("I14, row 62: 50 redrives at once make one new run of each", async () => {
  const ids = await bury(5);
  const jobs = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const which = n % 2 === 0 ? { filter: {} } : { taskIds: ids };
      return (await front.call({ path: "/redrives", body: { ...which, ratePerSecond: 10_000 } }))
        .json;
    }),
  );
  const ended = await Promise.all(jobs.map(({ redriveId }) => finished(redriveId)));
  expect(ended.reduce((sum, { redriven }) => sum + redriven, 0)).toBe(5);
  expect((await get("/retry-tasks?limit=250")).tasks).toHaveLength(10);
});

test("a redrive keeps its pace and can be cancelled", async () => {
  await bury(20);
  const { json } = await front.call({ path: "/redrives", body: { filter: {}, ratePerSecond: 2 } });
  const cancelled = await front.call({ path: `/redrives/${json.redriveId}/cancel` });
  expect(cancelled.json.status).toBe("CANCELLED");
  const job = await finished(json.redriveId);
  expect(job.redriven).toBeLessThanOrEqual(2);
  const unknown = await front.call({ path: "/redrives/nothing/cancel" });
  expect([unknown.status, unknown.json.code]).toEqual([404, "NOT_FOUND"]);
});

test("a canary that fails stops the rest, and a resume sends it", async () => {
  await bury(8);
  front.target.statuses = [503, 503, 503];
  const body = { filter: {}, ratePerSecond: 1000, canary: 3 };
  const { json } = await front.call({ path: "/redrives", body });
  const paused = await finished(json.redriveId);
  expect(paused).toMatchObject({ status: "PAUSED", redriven: 3, finishedAt: null });
  expect(paused.error).toContain("of the first 3 failed");
  const resumed = await front.call({ path: `/redrives/${json.redriveId}/resume` });
  expect(resumed.json).toMatchObject({ status: "RUNNING", error: null });
  expect(await finished(json.redriveId)).toMatchObject({ status: "DONE", redriven: 8 });
});

test("discarding takes a filter, and leaves everything else", async () => {
  const [first = ""] = await bury(3);
  await bury(2, 404);
  const remove = (query: string) => front.call({ method: "DELETE", path: `/dead-letters${query}` });
  expect((await remove("")).status).toBe(400);
  expect((await remove("?lastStatus=404")).json).toEqual({ discarded: 2 });
  expect((await get("/dead-letters")).tasks).toHaveLength(3);
  expect((await remove("?createdFrom=0")).json).toEqual({ discarded: 3 });
  expect((await front.call({ method: "GET", path: `/retry-tasks/${first}` })).status).toBe(404);
  expect((await get("/destinations")).destinations).toEqual([]);
});
