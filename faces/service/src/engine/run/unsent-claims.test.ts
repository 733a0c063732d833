/** Tests of claims whose attempt is not sent, because of their policy or their target. */
import { expect, it } from "vitest";
import { notStarted } from "../../deliver/attempt.ts";
import type { StartedTask } from "../../model/batch.ts";
import { StoreFullError } from "../../model/store-errors.ts";
import { batch, DESTINATION, settle, T0, TENANT } from "../../stores/store.testing.ts";
import { setup } from "../engine.testing.ts";
import type { EngineEvent } from "../events.ts";

const REMOVED = {
  tenantId: TENANT,
  policyId: "removed",
  version: 1,
  document: "{}",
  createdAt: T0,
};

it("a task whose policy was deleted from the store ends without an attempt", async () => {
  const { clock, store, enqueue, sent, get } = await setup();
  await store.addPolicy(REMOVED);
  Object.assign(store, { getPolicy: async () => null });
  const { task } = enqueue({ policyId: "removed" });
  await clock.advance(1);
  expect(sent).toEqual([]);
  expect(await get(task.taskId)).toMatchObject({
    status: "EXHAUSTED",
    reason: "not-retryable",
    attemptNumber: 0,
  });
});

it("a task whose policy cannot be read waits without using an attempt, and is then sent", async () => {
  const { clock, store, enqueue, sent, get } = await setup();
  const { getPolicy } = store;
  Object.assign(store, { getPolicy: () => Promise.reject(new StoreFullError("no space")) });
  const { task } = enqueue();
  await clock.advance(1);
  expect(await get(task.taskId)).toMatchObject({ status: "PENDING", attemptNumber: 0 });
  Object.assign(store, { getPolicy });
  await clock.advance(998);
  expect(sent).toEqual([]);
  await clock.advance(2);
  expect(sent.map(({ task }) => task.attemptNumber)).toEqual([1]);
});

it("the permit of a task that is not sent goes to a task that waits for it, at once", async () => {
  const { clock, store, engine, enqueue, sent } = await setup();
  await store.addPolicy(REMOVED);
  const document = JSON.stringify({ concurrency: { max: 1, algorithm: "FIXED" } });
  await engine.changeDestination(TENANT, DESTINATION, { document });
  let answer = (_: null) => {};
  const { getPolicy } = store;
  const removed = new Promise<null>((resolve) => {
    answer = resolve;
  });
  Object.assign(store, {
    getPolicy: (...ref: Parameters<typeof getPolicy>) =>
      ref[1] === "removed" ? removed : getPolicy(...ref),
  });
  enqueue({ policyId: "removed" });
  await clock.advance(1);
  const { task } = enqueue();
  await clock.advance(100);
  expect(sent).toEqual([]);
  answer(null);
  await clock.advance(0);
  expect(sent.map(({ task }) => task.taskId)).toEqual([task.taskId]);
});

it("a task that the service refused to send ends with the reason target-denied", async () => {
  const { clock, enqueue, sent, get } = await setup();
  const { task } = enqueue();
  await clock.advance(1);
  const failure = { errorClass: "target-denied", errorMessage: "the service refused it" } as const;
  sent[0]?.end(notStarted({ kind: "fault" }, failure));
  await clock.advance(1);
  const ended = { status: "EXHAUSTED", reason: "target-denied", lastError: failure.errorMessage };
  expect(await get(task.taskId)).toMatchObject(ended);
});

/** This node has no key for the secrets of the task. */
const NO_KEY = { errorClass: "secret-unavailable", errorMessage: "no key" } as const;

it("a task whose secret cannot be read waits without using an attempt", async () => {
  const { clock, enqueue, sent, get } = await setup();
  const { task } = enqueue();
  await clock.advance(1);
  const waits: number[] = [];
  for (let tries = 0; tries < 4; tries++) {
    const claimed = sent.length;
    sent[claimed - 1]?.end(notStarted({ kind: "fault" }, NO_KEY));
    await clock.advance(1);
    const waiting = { status: "PENDING", attemptNumber: 0, lastError: "no key" };
    expect(await get(task.taskId)).toMatchObject(waiting);
    let seconds = 0;
    for (; sent.length === claimed && seconds < 100; seconds++) await clock.advance(1000);
    waits.push(seconds);
  }
  expect(waits).toEqual([1, 2, 4, 8]);
  expect(sent.map(({ task: { attemptNumber } }) => attemptNumber)).toEqual(Array(5).fill(1));
});

it("a task whose secret cannot be read until its deadline ends with that reason", async () => {
  const { clock, enqueue, sent, get } = await setup();
  const { task } = enqueue({ deadlineAt: T0 + 10_000 });
  await clock.advance(1);
  for (let seconds = 0; seconds < 16; seconds++) {
    sent.at(-1)?.end(notStarted({ kind: "fault" }, NO_KEY));
    await clock.advance(1000);
  }
  const ended = { status: "EXHAUSTED", reason: "secret-unavailable", lastError: "no key" };
  expect(await get(task.taskId)).toMatchObject({ ...ended, attemptNumber: 0 });
});

it("a claim that another node settled before it was sent is fenced with its own number", async () => {
  const { clock, store, engine, enqueue } = await setup();
  await store.addPolicy(REMOVED);
  let answer = (_: null) => {};
  const removed = new Promise<null>((resolve) => {
    answer = resolve;
  });
  const claimed: StartedTask[] = [];
  const { commit } = store;
  Object.assign(store, {
    getPolicy: () => removed,
    commit: async (work: Parameters<typeof commit>[0]) => {
      const result = await commit(work);
      claimed.push(...result.claims.flatMap(({ tasks }) => tasks));
      return result;
    },
  });
  const events: EngineEvent[] = [];
  engine.events.listen((event) => events.push(event));
  enqueue({ policyId: "removed", scheduledAt: T0 + 1000 });
  await clock.advance(1001);
  await store.commit(batch({ settles: claimed.map((claim) => settle(claim)) }));
  answer(null);
  await clock.advance(1);
  const fenced = events.filter(({ type }) => type === "attempt.fenced");
  expect(fenced).toMatchObject([{ attemptNumber: 1 }]);
});
