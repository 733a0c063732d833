/** Dead letters whose policy was removed: they are redriven under its newest version, or not at all. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, type Front, openFront } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-removed-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let front: Front | undefined;
afterEach(() => front?.close());

/** A dead letter of policy `gone`, which was removed; in a process that has never heard of that. */
async function deadLetter(name: string): Promise<{ front: Front; taskId: string }> {
  const store = `sqlite:${join(folder, name)}`;
  const before = await openFront({ store });
  const { call, target, redrive } = before;
  const policy = { policyId: "gone", maxAttempts: 1 };
  await call({ path: "/retry-policies", body: { ...policy, description: "the first" } });
  await call({ method: "PUT", path: "/retry-policies/gone", body: policy });
  target.statuses = [500];
  const done = endings(redrive, 1);
  const { json } = await call({ body: { targetUrl: target.url, policyId: "gone" } });
  await done;
  expect((await call({ method: "DELETE", path: "/retry-policies/gone" })).status).toBe(204);
  await before.close();
  front = await openFront({ store });
  return { front, taskId: json.taskId };
}

async function redriven({ call }: Front, ...taskIds: string[]) {
  const { json } = await call({ path: "/redrives", body: { taskIds } });
  const path = `/redrives/${json.redriveId}`;
  for (;;) {
    const job = (await call({ method: "GET", path })).json;
    if (job.status !== "RUNNING") return { job };
  }
}

const get = async ({ call }: Front, taskId: string) =>
  (await call({ method: "GET", path: `/retry-tasks/${taskId}` })).json;

test("without any version it is skipped, with the reason, and can be redriven once there is one", async () => {
  const { front, taskId } = await deadLetter("none.db");
  const { job } = await redriven(front, taskId);
  const detail = 'there is no policy "gone"';
  const skips = [{ reason: "unknown-policy", count: 1, detail, taskIds: [taskId] }];
  const done = { status: "DONE", total: 1, redriven: 0, skipped: 1, skips, error: null };
  expect(job).toMatchObject(done);
  expect(await get(front, taskId)).toMatchObject({ status: "EXHAUSTED", redrivenTo: null });

  await front.call({ path: "/retry-policies", body: { policyId: "gone", maxAttempts: 2 } });
  const ended = endings(front.redrive, 1);
  expect((await redriven(front, taskId)).job).toMatchObject({ redriven: 1, skips: [] });
  await ended;
  const { redrivenTo } = await get(front, taskId);
  // The old target is gone with its process: it is attempted, under what stands now.
  expect(await get(front, redrivenTo)).toMatchObject({ policyVersion: 1, attemptNumber: 2 });
});

test("it keeps none of the others back, in the process that removed it too", async () => {
  front = await openFront();
  const { call, target, redrive } = front;
  await call({ path: "/retry-policies", body: { policyId: "gone", maxAttempts: 1 } });
  const bury = async (policyId: string): Promise<string> => {
    target.statuses = [400];
    const done = endings(redrive, 1);
    const { json } = await call({ body: { targetUrl: target.url, policyId } });
    await done;
    return json.taskId;
  };
  const first = await bury("gone");
  const well = await bury("default");
  const last = await bury("gone");
  await call({ method: "DELETE", path: "/retry-policies/gone" });
  const { job } = await redriven(front, first, well, last);
  expect(job).toMatchObject({ status: "DONE", total: 3, redriven: 1, skipped: 2 });
  expect(job.skips).toMatchObject([{ reason: "unknown-policy", taskIds: [first, last] }]);
  expect((await get(front, well)).redrivenTo).not.toBeNull();
  const again = await redrive.redrive();
  expect(again).toMatchObject({ redriven: 0, skipped: 3 });
  const counts = again.skips.map(({ reason, count }) => [reason, count]);
  expect(new Map(counts as [string, number][])).toEqual(
    new Map([
      ["unknown-policy", 2],
      ["redriven", 1],
    ]),
  );
});
