/**
 * Tests of filters over HTTP: counts agree with lists, suggestions exist, and a change of many tasks
 * affects exactly the given ones.
 */
import { systemClock } from "@redrive/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

const LATER = systemClock.now() + 86_400_000;
const TASKS = 60;

let server: TestServer;
const ids: string[] = [];

const get = async (path: string) => (await server.call({ method: "GET", path })).json;
const post = (path: string, body: object) => server.call({ path, body });

beforeAll(async () => {
  server = await openTestServer();
  const tasks = Array.from({ length: TASKS }, (_, n) => ({
    targetUrl: server.target.url,
    destination: n % 2 === 0 ? "billing" : "crm",
    policyId: n % 3 === 0 ? "webhook" : "background",
    labels: { team: n % 4 === 0 ? "blue" : "red", order: String(n) },
    scheduledAt: LATER,
  }));
  const { json } = await post("/retry-tasks/batch", tasks);
  ids.push(...json.results.map(({ taskId }: { readonly taskId: string }) => taskId));
});
afterAll(() => server.close());

const FILTERS = [
  "",
  "status=PENDING",
  "destination=billing",
  "destination=billing&status=PENDING",
  "destination=billing&status=SUCCEEDED",
  "destination=none",
  "label=team%3Dblue",
  "policyId=webhook&destination=crm",
  `createdTo=${LATER}`,
  "redriven=false",
  "redriven=true",
] as const;

test("the count of a filter is the number of tasks and of ids that it lists", async () => {
  for (const filter of FILTERS) {
    const { tasks } = await get(`/retry-tasks?limit=250&${filter}`);
    const { count, complete } = await get(`/retry-tasks/count?${filter}`);
    const { taskIds, cursor } = await get(`/retry-tasks/ids?${filter}`);
    expect([filter, count, complete, cursor]).toEqual([filter, tasks.length, true, null]);
    expect(taskIds).toEqual(tasks.map(({ taskId }: { readonly taskId: string }) => taskId));
  }
});

test("ids come in pages, and a bad filter or cursor is refused", async () => {
  const first = await get("/retry-tasks/ids?limit=40");
  const second = await get(`/retry-tasks/ids?limit=40&cursor=${first.cursor}`);
  expect([...first.taskIds, ...second.taskIds]).toEqual(ids.toSorted().reverse());
  for (const query of ["limit=5001", "cursor=x", "status=DEAD", "label=team", "colour=red"]) {
    const { status } = await server.call({ method: "GET", path: `/retry-tasks/ids?${query}` });
    expect([query, status]).toEqual([query, 400]);
  }
});

test("suggests values that exist, those that begin with the text first", async () => {
  const suggest = async (query: string) =>
    (await get(`/retry-tasks/suggestions?${query}`)).suggestions;
  expect(await suggest("field=destination")).toEqual([
    { value: "billing", count: 30 },
    { value: "crm", count: 30 },
  ]);
  expect(await suggest("field=destination&text=R")).toEqual([{ value: "crm", count: 30 }]);
  expect(await suggest("field=label&text=team")).toEqual([
    { value: "team=red", count: 45 },
    { value: "team=blue", count: 15 },
  ]);
  expect(await suggest("field=label&text=team&destination=crm")).toEqual([
    { value: "team=red", count: 30 },
  ]);
  // The field itself does not narrow its own suggestions.
  expect(await suggest("field=policyId&policyId=webhook")).toHaveLength(2);
  expect(await suggest("field=label&text=order")).toHaveLength(12);
  expect(await suggest("field=reason")).toEqual([]);
});

test("changes exactly the given tasks, and says which were refused", async () => {
  const [first = "", second = "", third = ""] = ids;
  const taskIds = [first, second, second, "unknown"];
  const { status, json } = await post("/retry-tasks/cancel", { taskIds });
  expect(status).toBe(200);
  expect(json).toMatchObject({ done: 2, requested: 0, refused: [{ taskId: "unknown" }] });
  expect(json.refused[0].code).toBe("TASK_NOT_FOUND");
  expect(await get("/retry-tasks/count?status=CANCELLED")).toMatchObject({ count: 2 });
  const retried = await post("/retry-tasks/retry", { taskIds: [first, third] });
  expect(retried.json).toMatchObject({ done: 1, refused: [{ code: "TASK_STATE_CONFLICT" }] });
  await expect.poll(async () => (await get(`/retry-tasks/${third}`)).status).toBe("SUCCEEDED");
  expect(await get("/retry-tasks/count?status=PENDING")).toMatchObject({ count: TASKS - 3 });
  const discarded = await post("/dead-letters/discard", { taskIds: [first, third] });
  expect(discarded.json).toEqual({ discarded: 0 });
});

test("refuses an empty list, a list that is too long, and unknown fields", async () => {
  const long = Array.from({ length: 1001 }, (_, n) => `t${n}`);
  for (const path of ["/retry-tasks/cancel", "/retry-tasks/retry", "/dead-letters/discard"]) {
    for (const body of [{}, { taskIds: [] }, { taskIds: long }, { taskIds: ["a"], all: true }]) {
      expect((await post(path, body)).status).toBe(400);
    }
  }
});
