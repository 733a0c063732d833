/** Dead letters whose policy was removed: they are redriven under its newest version, or not at all. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, type Front, openFront } from "./front.ts";

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

async function redriven({ call }: Front, taskId: string) {
  const { json } = await call({ path: "/redrives", body: { taskIds: [taskId] } });
  const path = `/redrives/${json.redriveId}`;
  for (;;) {
    const job = (await call({ method: "GET", path })).json;
    if (job.status !== "RUNNING") return { job, path };
  }
}

const get = async ({ call }: Front, taskId: string) =>
  (await call({ method: "GET", path: `/retry-tasks/${taskId}` })).json;

test("without any version the redrive fails and says why, and the dead letter stays as it was", async () => {
  const { front, taskId } = await deadLetter("none.db");
  const { job, path } = await redriven(front, taskId);
  expect(job).toMatchObject({ status: "FAILED", redriven: 0 });
  expect(job.error).toContain('there is no policy "gone"');
  expect(await get(front, taskId)).toMatchObject({ status: "EXHAUSTED", redrivenTo: null });

  await front.call({ path: "/retry-policies", body: { policyId: "gone", maxAttempts: 2 } });
  const done = endings(front.redrive, 1);
  await front.call({ path: `${path}/resume` });
  await done;
  const { redrivenTo } = await get(front, taskId);
  // The old target is gone with its process: it is attempted, under what stands now.
  expect(await get(front, redrivenTo)).toMatchObject({ policyVersion: 1, attemptNumber: 2 });
});

test("the process that removed it does not go by what it remembers either", async () => {
  front = await openFront();
  const { call, target, redrive } = front;
  await call({ path: "/retry-policies", body: { policyId: "gone", maxAttempts: 1 } });
  target.statuses = [500];
  const done = endings(redrive, 1);
  const { json } = await call({ body: { targetUrl: target.url, policyId: "gone" } });
  await done;
  await call({ method: "DELETE", path: "/retry-policies/gone" });
  const { job } = await redriven(front, json.taskId);
  expect(job.status).toBe("FAILED");
});
