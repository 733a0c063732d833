/** Tests of claims that are committed a little before their tasks are due. */
import { describe, expect, it } from "vitest";
import {
  batch,
  claimFirst,
  create,
  DESTINATION,
  settle,
  T0,
  TENANT,
} from "../stores/store.testing.ts";
import { OK, setup } from "./engine.testing.ts";

const DUE_IN_MS = 1000;

/** A task that is claimed, and due in two milliseconds. */
async function claimed(document?: string) {
  const tools = await setup();
  const { clock, engine, enqueue, get } = tools;
  if (document !== undefined) await engine.changeDestination(TENANT, DESTINATION, { document });
  const dueAt = clock.now() + DUE_IN_MS;
  const { task } = enqueue({ scheduledAt: dueAt });
  await clock.advance(DUE_IN_MS - 2);
  const state = () => get(task.taskId);
  return { ...tools, task, dueAt, state };
}

describe("a claim that is committed ahead", () => {
  it("leaves when its task is due, and not before", async () => {
    const { clock, store, sent, task, dueAt, state } = await claimed();
    expect(await state()).toMatchObject({ status: "IN_FLIGHT", attemptNumber: 1 });
    await clock.advance(1);
    expect(sent).toHaveLength(0);
    await clock.advance(1);
    expect(sent.map(({ at }) => at)).toEqual([dueAt]);
    sent[0]?.finish(OK);
    await clock.advance(1);
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 10 });
    expect(attempts[0]?.startedAt).toBe(dueAt);
  });

  it("takes along what falls due soon after, each at its own instant", async () => {
    const { clock, sent, enqueue } = await setup();
    const start = clock.now();
    const dueAt = [start + 50, start + 52, start + 51, start + 70];
    for (const scheduledAt of dueAt) enqueue({ scheduledAt });
    await clock.advance(100);
    expect(sent.map(({ at }) => at - start)).toEqual([50, 51, 52, 70]);
    const claimedAt = sent.map(({ task }) => task.claimedAt);
    expect(new Set(claimedAt.slice(0, 3)).size).toBe(1);
    expect(Math.max(...sent.map(({ at, task }) => at - task.claimedAt))).toBeLessThanOrEqual(8);
  });

  it("goes back uncounted when the task is cancelled, and never leaves", async () => {
    const { clock, engine, sent, task, state } = await claimed();
    const types: string[] = [];
    engine.events.listen(({ type }) => types.push(type));
    const ref = { tenantId: TENANT, taskId: task.taskId };
    const [answer] = await Promise.all([engine.cancel(ref), clock.advance(1)]);
    expect(answer).toEqual({ kind: "cancelled" });
    expect(await state()).toMatchObject({ status: "CANCELLED", attemptNumber: 0 });
    await clock.advance(100);
    expect(sent).toHaveLength(0);
    expect(types).toEqual(["task.cancelled"]);
  });

  it("goes back uncounted when the destination is paused", async () => {
    const { clock, engine, sent, state } = await claimed();
    await engine.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() });
    await clock.advance(100);
    expect(sent).toHaveLength(0);
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await engine.changeDestination(TENANT, DESTINATION, { pausedAt: null });
    await clock.advance(1);
    expect(sent).toHaveLength(1);
  });

  it("goes back uncounted when the node stops", async () => {
    const { clock, engine, boot, sent, state } = await claimed();
    await Promise.all([engine.stop(0), clock.advance(100)]);
    expect(sent).toHaveLength(0);
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await boot("node-2");
    await clock.advance(1);
    expect(sent).toHaveLength(1);
  });

  it("is not made where a rate gives every call its instant", async () => {
    const { clock, sent, state } = await claimed(JSON.stringify({ rate: { perSecond: 100 } }));
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await clock.advance(2);
    expect(sent).toHaveLength(1);
  });

  it("leaves half of the places to what is due", async () => {
    const { clock, engine, store, enqueue, sent } = await setup();
    const document = JSON.stringify({ concurrency: { max: 4 } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    for (let n = 0; n < 8; n++) enqueue({ scheduledAt: clock.now() + 1000 });
    await clock.advance(999);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(2);
    enqueue();
    await clock.advance(0);
    expect(sent).toHaveLength(1);
    await clock.advance(1);
    expect(sent).toHaveLength(4);
  });

  it("counts as under way for one that must be alone", async () => {
    const { clock, store, boot, sent } = await setup();
    const at = clock.now() + 1000;
    const [first, second] = [create({ scheduledAt: T0 }), create({ scheduledAt: at + 3 })];
    await store.commit(batch({ now: T0, creates: [first, second] }));
    const [claim] = await claimFirst(store);
    if (claim === undefined) throw new Error("nothing was claimed");
    const abandoned = { lane: "alone", abandonedCount: 2, nextAttemptAt: at } as const;
    await store.commit(batch({ settles: [settle(claim, abandoned)] }));
    await boot("node-2");
    await clock.advance(1100);
    const [other] = sent;
    expect(sent.map(({ task }) => task.taskId)).toEqual([second.task.taskId]);
    expect(other?.at).toBe(at + 3);
    other?.finish(OK);
    await clock.advance(1);
    expect(sent.map(({ task }) => task.taskId)).toEqual([second.task.taskId, first.task.taskId]);
  });
});
