/** Cancelling: it wins or says who did, and after it has won nothing more is sent. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { endings, type Front, openFront } from "./test-server.ts";

let front: Front;
beforeEach(async () => {
  front = await openFront();
});
afterEach(() => front.close());

const cancel = (taskId: string) => front.call({ method: "DELETE", path: `/retry-tasks/${taskId}` });
const create = async (change: object = {}) =>
  (
    await front.call({
      body: { targetUrl: front.target.url, policy: { maxAttempts: 1 }, ...change },
    })
  ).json.taskId as string;

test("row 62: twice gives the same answer; what has ended is 409; a live task is not redriven", async () => {
  const later = await create({ scheduledAt: Date.now() + 60_000 });
  const first = await cancel(later);
  expect([first.status, first.json.status]).toEqual([200, "CANCELLED"]);
  expect((await cancel(later)).json).toEqual(first.json);
  const done = endings(front.redrive, 1);
  const now = await create();
  await done;
  const ended = await cancel(now);
  expect([ended.status, ended.json.code]).toEqual([409, "TASK_STATE_CONFLICT"]);
  const live = await create({ scheduledAt: Date.now() + 60_000 });
  const redrive = await front.call({ path: "/redrives", body: { taskIds: [live] } });
  expect([redrive.status, redrive.json.code]).toEqual([409, "TASK_STATE_CONFLICT"]);
});

test("I15: while an attempt runs, 202; then its success wins", async () => {
  const release = front.target.hold();
  const taskId = await create();
  while (front.target.received.length === 0) await front.call({ method: "GET", path: "/healthz" });
  const asked = await cancel(taskId);
  expect([asked.status, asked.json.status]).toEqual([202, "IN_FLIGHT"]);
  expect((await cancel(taskId)).json).toEqual(asked.json);
  const done = endings(front.redrive, 1);
  release();
  await done;
  const { json } = await front.call({ method: "GET", path: `/retry-tasks/${taskId}` });
  expect(json.status).toBe("SUCCEEDED");
});

test("I12, I15: in 1,000 races nothing is sent after 200 CANCELLED, and every end is one", async () => {
  const ends: [taskId: string, status: number, answer: string][] = [];
  for (let round = 0; round < 10; round++) {
    const done = endings(front.redrive, 100);
    const ids = await Promise.all(
      Array.from({ length: 100 }, (_, n) => create({ labels: { n: String(n) } })),
    );
    await Promise.all(
      ids.map(async (taskId) => {
        const { status, json } = await cancel(taskId);
        ends.push([taskId, status, json.status]);
      }),
    );
    await done;
  }
  const sent = new Set(
    front.target.received.map(({ headers }) => String(headers["redrive-task-id"])),
  );
  for (const [taskId, status] of ends) {
    const { json } = await front.call({ method: "GET", path: `/retry-tasks/${taskId}` });
    expect([200, 202, 409]).toContain(status);
    if (status === 200) expect([json.status, sent.has(taskId)]).toEqual(["CANCELLED", false]);
    else expect(json.status).toMatch(/SUCCEEDED|CANCELLED/);
  }
  expect(front.target.received.length).toBe(sent.size);
});
