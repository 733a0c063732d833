/** Tests of claims whose attempt is not sent, because of their policy or their target. */
import { expect, it } from "vitest";
import { notStarted } from "../../deliver/attempt-result.ts";
import type { StartedTask } from "../../model/batch.ts";
import { StoreFullError } from "../../model/store-errors.ts";
import { batch, DESTINATION, settle, T0, TENANT } from "../../stores/store.testing.ts";
import { setup } from "../engine.testing.ts";
import type { EngineEvent } from "../events/engine-event.ts";

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

it.each(["target-denied", "secret-unavailable"] as const)(
  "a task that the service refused to send ends with the reason %s",
  async (errorClass) => {
    const { clock, enqueue, sent, get } = await setup();
    const { task } = enqueue();
    await clock.advance(1);
    const failure = { errorClass, errorMessage: "the service refused it" };
    sent[0]?.end(notStarted({ kind: "fault" }, failure));
    await clock.advance(1);
    const ended = { status: "EXHAUSTED", reason: errorClass, lastError: failure.errorMessage };
    expect(await get(task.taskId)).toMatchObject(ended);
  },
);

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
