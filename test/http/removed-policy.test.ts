/**
 * Tests of dead letters whose policy was removed: they are redriven with its newest version, or not
 * at all.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-removed-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let server: TestServer | undefined;
afterEach(() => server?.close());

/**
 * A dead letter of policy `gone`, which was removed, in a process that has never loaded that
 * policy.
 */
async function deadLetter(name: string): Promise<{ server: TestServer; taskId: string }> {
  const store = `sqlite:${join(folder, name)}`;
  const before = await openTestServer({ store });
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
  server = await openTestServer({ store });
  return { server, taskId: json.taskId };
}

async function redriven({ call }: TestServer, ...taskIds: string[]) {
  const { json } = await call({ path: "/redrives", body: { taskIds } });
  const path = `/redrives/${json.redriveId}`;
  for (;;) {
    const job = (await call({ method: "GET", path })).json;
    if (job.status !== "RUNNING") return { job };
  }
}

const get = async ({ call }: TestServer, taskId: string) =>
  (await call({ method: "GET", path: `/retry-tasks/${taskId}` })).json;

test("without any version it is skipped, with the reason, and can be redriven once there is one", async () => {
  const { server, taskId } = await deadLetter("none.db");
  const { job } = await redriven(server, taskId);
  const detail = 'there is no policy "gone"';
  const skips = [{ reason: "unknown-policy", count: 1, detail, taskIds: [taskId] }];
  const done = { status: "DONE", total: 1, redriven: 0, skipped: 1, skips, error: null };
  expect(job).toMatchObject(done);
  expect(await get(server, taskId)).toMatchObject({ status: "EXHAUSTED", redrivenTo: null });

  await server.call({ path: "/retry-policies", body: { policyId: "gone", maxAttempts: 2 } });
  const ended = endings(server.redrive, 1);
  expect((await redriven(server, taskId)).job).toMatchObject({ redriven: 1, skips: [] });
  await ended;
  const { redrivenTo } = await get(server, taskId);
  // The old target ended with its process, so the attempt fails, under the current policy. Its version
  // follows those of the removed policy, which stay reserved: versions never change.
  expect(await get(server, redrivenTo)).toMatchObject({ policyVersion: 3, attemptNumber: 2 });
});

test("it does not block the others, also in the process that removed the policy", async () => {
  server = await openTestServer();
  const { call, target, redrive } = server;
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
  const { job } = await redriven(server, first, well, last);
  expect(job).toMatchObject({ status: "DONE", total: 3, redriven: 1, skipped: 2 });
  expect(job.skips).toMatchObject([{ reason: "unknown-policy", taskIds: [first, last] }]);
  expect((await get(server, well)).redrivenTo).not.toBeNull();
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
