/** Tests of suspects: tasks that were abandoned twice run one at a time, next to all other tasks. */
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import { laneOf } from "../model/task.ts";
import { batch, claimOf, create, settle, T0, TENANT } from "../stores/store.testing.ts";
import { OK, type Sent, setup } from "./engine.testing.ts";

const SUSPECTS = "suspects";
const HEALTHY = "healthy";

/** Stores tasks that were abandoned twice and are due at `T0`, and starts a node that finds them. */
async function withSuspects(count: number) {
  const tools = await setup({
    jitterType: "NONE",
    attemptTimeoutMs: 10_000,
    totalBudgetMs: 3_600_000,
  });
  const { clock, engine, store, boot } = tools;
  await Promise.all([engine.stop(0), clock.advance(1)]);
  const addSuspects = async (number: number, to: string) => {
    const creates = Array.from({ length: number }, () =>
      create({ scheduledAt: T0, destination: to }),
    );
    await store.commit(batch({ now: T0, creates }));
    const claim = claimOf("first", { destination: to, limit: number });
    const { claims } = await store.commit(batch({ now: T0, claims: [claim] }));
    const abandoned = { lane: laneOf(1, 2), abandonedCount: 2, nextAttemptAt: T0 } as const;
    const settles = (claims[0]?.tasks ?? []).map((task) => settle(task, abandoned));
    await store.commit(batch({ now: T0, settles }));
    return creates.map(({ task }) => task.taskId);
  };
  const ids = await addSuspects(count, SUSPECTS);
  const node = await boot("node-2");
  const enqueue = (to: string) => {
    const task = create({ createdAt: clock.now(), scheduledAt: clock.now(), destination: to }).task;
    node.create(
      task,
      null,
      () => {},
      () => {},
    );
    return task.taskId;
  };
  return { ...tools, enqueue, addSuspects, ids };
}

const idsOf = (sent: readonly Sent[]) => sent.map(({ task }) => task.taskId);

describe("a suspect", () => {
  it("runs one at a time, and does not delay a healthy destination", async () => {
    const { clock, enqueue, sent, ids, store } = await withSuspects(20);
    await clock.advance(1);
    for (let n = 1; n <= 20; n++) {
      const startedAt = clock.now();
      const healthy = enqueue(HEALTHY);
      await clock.advance(0);
      expect(sent.at(-1)).toMatchObject({ at: startedAt, task: { taskId: healthy } });
      sent.at(-1)?.finish(OK);
      const running = sent.filter(({ task }) => task.destination === SUSPECTS);
      expect(running).toHaveLength(n);
      await clock.advance(200);
      running.at(-1)?.finish(OK);
      await clock.advance(1);
    }
    expect(idsOf(sent.filter(({ task }) => task.destination === SUSPECTS))).toEqual(ids);
    expect(store.all().every(({ status }) => status === "SUCCEEDED")).toBe(true);
  });

  it("that hangs delays neither a healthy task nor a task at its own destination", async () => {
    const { clock, enqueue, sent, ids } = await withSuspects(5);
    await clock.advance(100);
    const healthy = [enqueue(HEALTHY), enqueue(SUSPECTS)];
    await clock.advance(0);
    expect(idsOf(sent)).toEqual([ids[0], ...healthy]);
    expect(sent.slice(1).map(({ at }) => at)).toEqual([clock.now(), clock.now()]);
    await clock.advance(60_000);
    expect(idsOf(sent)).toEqual([ids[0], ...healthy]);
  });

  it("starts while other attempts run", async () => {
    const { clock, enqueue, sent, ids } = await withSuspects(2);
    enqueue(HEALTHY);
    await clock.advance(1);
    const first = sent.find(({ task }) => task.taskId === ids[0]);
    first?.finish(OK);
    await clock.advance(1);
    expect(idsOf(sent)).toContain(ids[1]);
  });

  it("that a guard holds does not block the suspects of another destination", async () => {
    const { clock, store, boot, addSuspects, sent } = await withSuspects(1);
    sent.length = 0;
    const paused = await addSuspects(3, "paused");
    const free = await addSuspects(1, "free");
    await store.commit(
      batch({
        now: T0,
        destinations: [
          { row: { ...blankDestination(TENANT, "paused"), version: 1, pausedAt: T0 } },
        ],
      }),
    );
    await boot("node-3");
    await clock.advance(1000);
    expect(idsOf(sent)).toContain(free[0]);
    for (const id of paused) expect(idsOf(sent)).not.toContain(id);
  });
});

describe("a crash", () => {
  it("buries the running suspect only, and never a task that ran next to it", async () => {
    const { clock, boot, kill, enqueue, sent, ids, get } = await withSuspects(3);
    const beside = enqueue(HEALTHY);
    for (const [index, culprit] of ids.entries()) {
      await clock.advance(5000);
      expect(idsOf(sent).filter((id) => ids.includes(id))).toEqual(ids.slice(0, index + 1));
      expect(await get(culprit)).toMatchObject({ status: "IN_FLIGHT" });
      kill(`node-${index + 2}`);
      await boot(`node-${index + 3}`);
      await clock.advance(1);
      expect(await get(culprit)).toMatchObject({ status: "EXHAUSTED", reason: "poison" });
      expect(await get(beside)).not.toMatchObject({ status: "EXHAUSTED" });
    }
    await clock.advance(10_000);
    expect(await get(beside)).toMatchObject({ status: "IN_FLIGHT", abandonedCount: 2 });
    sent.at(-1)?.finish(OK);
    await clock.advance(1);
    expect(await get(beside)).toMatchObject({ status: "SUCCEEDED", abandonedCount: 0 });
  });
});

describe("a lost result of a commit that claimed a suspect", () => {
  it("keeps the other suspects waiting until no unknown claim can be left", async () => {
    const { clock, store, sent, ids, enqueue } = await withSuspects(2);
    const { commit } = store;
    store.commit = async (items) => {
      if (items.claims.length === 0) return commit(items);
      store.commit = commit;
      await commit(items);
      throw new Error("the answer was lost");
    };
    const claimed = () => store.claimsOf("node-2", 10);
    for (let ms = 0; ms < 90_000; ms += 500) {
      await clock.advance(500);
      const suspects = (await claimed()).filter(({ abandonedCount }) => abandonedCount >= 2);
      expect(suspects.length).toBeLessThanOrEqual(1);
    }
    expect(ids).toContain(sent[0]?.task.taskId);
    enqueue(HEALTHY);
    await clock.advance(0);
    expect(sent).toHaveLength(2);
  });
});
