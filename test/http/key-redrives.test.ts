/** Redrives of an API key that has a list of targets: nothing goes where the key may not send. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Front, openFront, openTarget, type Target } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-key-redrives-"));
const keys = memoryKeyStore();
let drawn = 0;
function keyWith(limits: { readonly targets?: string }) {
  const fill = (bytes: Uint8Array) => void bytes.fill(++drawn);
  const { key, record } = createKey(fill, { tenantId: "acme", scopes: ["admin"], now: 0, limits });
  keys.add(record);
  return { authorization: `Bearer ${key}` };
}
const anywhere = keyWith({});

let listed: Target;
let other: Target;
let front: Front;
beforeAll(async () => {
  listed = await openTarget();
  other = await openTarget();
});
afterEach(() => front.close());
afterAll(async () => {
  await listed.close();
  await other.close();
  rmSync(folder, { recursive: true, force: true });
});

const only = ({ origin }: Target) => keyWith({ targets: new URL(origin).host });

async function bury(target: Target, fields: object = {}): Promise<string> {
  target.statuses = [400];
  const { taskId } = (
    await front.call({ headers: anywhere, body: { targetUrl: target.url, ...fields } })
  ).json;
  for (;;) if ((await taskOf(taskId)).status === "EXHAUSTED") return taskId;
}

const taskOf = async (taskId: string) =>
  (await front.call({ method: "GET", path: `/retry-tasks/${taskId}`, headers: anywhere })).json;

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
async function jobOf(redriveId: string, isSeen: (job: any) => boolean) {
  for (;;) {
    const path = `/redrives/${redriveId}`;
    const { json } = await front.call({ method: "GET", path, headers: anywhere });
    if (isSeen(json)) return json;
  }
}

const isOver = ({ status }: { status: string }) => status !== "RUNNING";

test("what goes or is called back elsewhere is skipped with the reason, named or not", async () => {
  front = await openFront({ keys });
  const elsewhere = await bury(other);
  const toldElsewhere = await bury(listed, { callbackUrl: other.url });
  const well = await bury(listed);
  for (const set of [{ taskIds: [elsewhere, toldElsewhere] }, { filter: {} }]) {
    const headers = only(listed);
    const { json } = await front.call({ path: "/redrives", headers, body: set });
    const job = await jobOf(json.redriveId, isOver);
    const denied = job.skips.find(({ reason }: { reason: string }) => reason === "target-denied");
    expect(job.status).toBe("DONE");
    expect(denied.detail).toBe(`this API key may not send to ${new URL(other.origin).host}`);
    expect(denied.taskIds).toEqual(expect.arrayContaining([elsewhere, toldElsewhere]));
    expect(job).not.toHaveProperty("targets");
  }
  expect((await taskOf(well)).redrivenTo).not.toBeNull();
  for (const taskId of [elsewhere, toldElsewhere]) {
    expect(await taskOf(taskId)).toMatchObject({ status: "EXHAUSTED", redrivenTo: null });
  }
  // Whoever may send there redrives them.
  const body = { taskIds: [elsewhere] };
  const { json } = await front.call({ path: "/redrives", headers: anywhere, body });
  expect(await jobOf(json.redriveId, isOver)).toMatchObject({ redriven: 1, skips: [] });
});

test("the list is kept with the redrive: a restart does not widen it", async () => {
  const store = `sqlite:${join(folder, "restart.db")}`;
  front = await openFront({ keys, store });
  const taskIds = [await bury(listed), await bury(other)];
  const headers = only(listed);
  const body = { taskIds, ratePerSecond: 0.1 };
  const { redriveId } = (await front.call({ path: "/redrives", headers, body })).json;
  await jobOf(redriveId, ({ redriven }) => redriven === 1);
  const { redrivenTo } = await taskOf(taskIds[0] ?? "");
  while ((await taskOf(redrivenTo)).finishedAt === null);
  await front.close();
  const sent = other.received.length;
  front = await openFront({ keys, store });
  const job = await jobOf(redriveId, isOver);
  expect(job).toMatchObject({ status: "DONE", redriven: 1, skipped: 1 });
  expect(job.skips).toMatchObject([{ reason: "target-denied", taskIds: [taskIds[1]] }]);
  expect(other.received).toHaveLength(sent);
});

test("a key with a list resumes no redrive that goes elsewhere, and its own it does", async () => {
  front = await openFront({ keys });
  const headers = only(listed);
  const begin = async (by: object) => {
    const taskIds = [await bury(listed), await bury(listed)];
    const body = { taskIds, ratePerSecond: 0.1 };
    const { json } = await front.call({ path: "/redrives", headers: { ...by }, body });
    await front.call({ path: `/redrives/${json.redriveId}/pause`, headers });
    return front.call({ path: `/redrives/${json.redriveId}/resume`, headers });
  };
  const refused = await begin(anywhere);
  expect([refused.status, refused.json.code]).toEqual([403, "FORBIDDEN"]);
  expect((await begin(headers)).status).toBe(200);
  await front.redrive.jobs.stop();
});
