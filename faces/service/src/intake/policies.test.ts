/** Tests of registering and replacing policies: concurrent callers lose no document. */
import { afterEach, describe, expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import { PolicyCache } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { Redrive } from "../redrive.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { Policies } from "./policies.ts";

let redrive: Redrive;
afterEach(() => redrive?.stop());

describe("policies", () => {
  it("are registered, listed and removed for the only tenant when none is named", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const document = { policyId: "mine", maxAttempts: 2 };
    expect(await redrive.policies.register(document)).toEqual({
      policyId: "mine",
      policyVersion: 1,
    });
    expect(await redrive.policies.list()).toMatchObject([{ tenantId: "default" }]);
    expect(await redrive.policies.remove("mine")).toBe(true);
    expect(await redrive.policies.get("mine")).toBeNull();
  });

  it("that are inline are removed with their last task, and stored again when they are used", async () => {
    const memory = memoryStore();
    redrive = await createRedrive({ store: memory });
    const input = { targetUrl: "http://127.0.0.1:8099/", policy: { maxAttempts: 3 } };
    const later = { ...input, scheduledAt: redrive.now() + 3_600_000 };
    const { taskId } = await redrive.enqueue(later);
    await redrive.policies.removeUnused();
    expect(await redrive.policies.list()).toHaveLength(1);
    await redrive.cancel(taskId);
    await redrive.policies.removeUnused();
    expect(await redrive.policies.list()).toHaveLength(1);
    const now = redrive.now() + 1;
    await memory.sweep({ now, endedBefore: now, deadBefore: now, limit: 9 });
    // The task that is being created keeps the policy, whichever comes first.
    const [again] = await Promise.all([redrive.enqueue(later), redrive.policies.removeUnused()]);
    expect(await redrive.policies.list()).toHaveLength(1);
    expect(await redrive.get(again.taskId)).toMatchObject({ status: "PENDING" });
    await redrive.cancel(again.taskId);
    const end = redrive.now() + 1;
    await memory.sweep({ now: end, endedBefore: end, deadBefore: end, limit: 9 });
    await redrive.policies.removeUnused();
    expect(await redrive.policies.list()).toEqual([]);
  });

  it("that are replaced concurrently all become separate versions", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const counts = [2, 3, 4, 5];
    const replaced = await Promise.all(
      counts.map((maxAttempts) => redrive.policies.replace({ policyId: "mine", maxAttempts })),
    );
    expect(new Set(replaced.map(({ policyVersion }) => policyVersion)).size).toBe(4);
    const kept = await Promise.all(
      replaced.map(async ({ policyVersion }) => {
        const row = await redrive.policies.get("mine", "default", policyVersion);
        return JSON.parse(row?.document ?? "{}").maxAttempts;
      }),
    );
    expect(kept).toEqual(counts);
  });

  it("are suggested only while this process may trust what it knows about them", async () => {
    const store = memoryStore({ exclusive: false });
    let now = 0;
    const digest = () => "";
    const book = new PolicyCache(store);
    const policies = new Policies({ store, book, digest, now: () => now });
    const messageFor = (id: string) => policies.unknown("NOT_FOUND", "default", id).message;
    await policies.register({ policyId: "night-orders" });
    expect(messageFor("nigth-orders")).toContain('did you mean "night-orders"?');
    // Another node has removed it: whoever asks for it gets no advice to ask for it.
    expect(messageFor("night-orders")).toBe('there is no policy "night-orders"');
    now = 10_000;
    expect(messageFor("nigth-orders")).toBe('there is no policy "nigth-orders"');
  });

  it("that are registered concurrently with different documents are rejected except for one", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const results = await Promise.allSettled(
      [2, 3, 3].map((maxAttempts) => redrive.policies.register({ policyId: "mine", maxAttempts })),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(results[1]).toMatchObject({ reason: { code: "POLICY_CONFLICT" } });
  });

  it("that other callers always change first are rejected in the end", async () => {
    let asked = 0;
    const overtaken = async () => {
      if (++asked > 1000) throw new Error("asked without end");
      return false;
    };
    const getPolicy = async () => null;
    redrive = await createRedrive({
      store: { ...memoryStore(), addPolicy: overtaken, getPolicy },
    });
    const { policies } = redrive;
    const changes = [
      () => policies.register({ policyId: "mine" }),
      () => policies.replace({ policyId: "mine" }),
      () => policies.choose("default", "webhook"),
      () => policies.chooseInline("default", { maxAttempts: 2 }),
    ];
    for (const change of changes) {
      asked = 0;
      await expect(change()).rejects.toMatchObject({ code: "POLICY_CONFLICT" });
      expect(asked).toBe(100);
    }
  });

  it("that are removed before a task is stored are unknown to it, and nothing is stored", async () => {
    const inner = memoryStore();
    let arrive = () => {};
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    let letGo = () => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const store: Store = {
      ...inner,
      async commit(batch) {
        if (batch.creates.length > 0) {
          arrive();
          await held;
        }
        return inner.commit(batch);
      },
    };
    redrive = await createRedrive({ store });
    await redrive.pause("there");
    await redrive.policies.register({ policyId: "mine" });
    const task = { targetUrl: "http://127.0.0.1:7999/", destination: "there", policyId: "mine" };
    const enqueued = redrive.enqueue(task).catch(({ code }) => code);
    await arrived;
    expect(await redrive.policies.remove("mine")).toBe(true);
    letGo();
    expect(await enqueued).toBe("UNKNOWN_POLICY");
    expect(inner.all()).toEqual([]);
    // A policy with the same id gets the next version.
    await redrive.policies.register({ policyId: "mine", maxAttempts: 2 });
    const { taskId } = await redrive.enqueue(task);
    expect(await redrive.get(taskId)).toMatchObject({ policyVersion: 2 });
    expect(await redrive.policies.remove("mine")).toBe(false);
  });

  it("that are removed while a task chooses them are either unknown to it or stay", async () => {
    const inner = memoryStore();
    const late = async <T>(work: () => Promise<T>) => {
      const result = await work();
      await new Promise((resolve) => setImmediate(resolve));
      return result;
    };
    redrive = await createRedrive({
      store: {
        ...inner,
        getPolicy: (...ref) => late(() => inner.getPolicy(...ref)),
        removePolicy: (...ref) => late(() => inner.removePolicy(...ref)),
      },
    });
    await redrive.pause("there");
    await inner.addPolicy({
      tenantId: "default",
      policyId: "mine",
      version: 1,
      document: "{}",
      createdAt: 0,
    });
    const task = { targetUrl: "http://127.0.0.1:7999/", destination: "there", policyId: "mine" };
    const [enqueued, removed] = await Promise.all([
      redrive.enqueue(task).then(
        () => "stored",
        ({ code }) => code,
      ),
      redrive.policies.remove("mine"),
    ]);
    expect([
      ["stored", false],
      ["UNKNOWN_POLICY", true],
    ]).toContainEqual([enqueued, removed]);
    expect(inner.all()).toHaveLength(removed ? 0 : 1);
  });

  it("that are inline in a destination are stored again after they were removed", async () => {
    redrive = await createRedrive({ store: "memory:" });
    await redrive.pause("there");
    await redrive.configure("there", { policy: { maxAttempts: 7 } });
    const task = { targetUrl: "http://127.0.0.1:7999/", destination: "there" };
    const { taskId } = await redrive.enqueue(task);
    await redrive.cancel(taskId);
    const { policyId = "" } = (await redrive.get(taskId)) ?? {};
    expect(await redrive.policies.remove(policyId)).toBe(true);
    await redrive.enqueue(task);
    expect(await redrive.policies.get(policyId)).toMatchObject({ policyId, version: 2 });
  });

  it("that were removed are reported when their dead letter is redriven, and it stays a dead letter", async () => {
    redrive = await createRedrive({ store: "memory:" });
    await redrive.policies.register({ policyId: "mine", maxAttempts: 1 });
    const exhausted = new Promise((resolve) => {
      redrive.onEvent(({ type }) => type === "task.exhausted" && resolve(type));
    });
    const { taskId } = await redrive.enqueue({
      targetUrl: "http://127.0.0.1:7999/",
      policyId: "mine",
    });
    await exhausted;
    expect(await redrive.policies.remove("mine")).toBe(true);
    await expect(redrive.redriveTask(taskId)).rejects.toMatchObject({ code: "UNKNOWN_POLICY" });
    expect(await redrive.get(taskId)).toMatchObject({ status: "EXHAUSTED", redrivenTo: null });
    await redrive.policies.register({ policyId: "mine", maxAttempts: 1 });
    expect(await redrive.redriveTask(taskId)).toBe(true);
  });
});
