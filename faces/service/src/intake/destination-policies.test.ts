/** Tests that tasks get their destination's policy, and that a hedge is rejected. */
import { systemClock } from "@redrive/core";
import { afterEach, describe, expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import type { Store } from "../model/store.ts";
import type { Redrive } from "../redrive.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";

const targetUrl = "https://orders.example/hook";
const destination = "https://orders.example";
const scheduledAt = systemClock.now() + 3_600_000;

let redrive: Redrive;
afterEach(() => redrive.stop());

async function open() {
  redrive = await createRedrive({ store: "memory:" });
}

async function policyOf(input: object = {}) {
  const { taskId } = await redrive.enqueue({ targetUrl, scheduledAt, ...input });
  const task = await redrive.get(taskId);
  return `${task?.policyId} ${task?.policyVersion}`;
}

describe("a destination's policy", () => {
  it("applies to tasks that name none, from then on", async () => {
    await open();
    expect(await policyOf()).toBe("background 1");
    await redrive.configure(destination, { policy: "interactive" });
    expect(await policyOf()).toBe("interactive 1");
    expect(await policyOf()).toBe("interactive 1");
    expect(await policyOf({ policyId: "read" })).toBe("read 1");
    expect(await policyOf({ destination: "elsewhere" })).toBe("background 1");
    await redrive.configure(destination, { policy: { maxAttempts: 2 } });
    expect(await policyOf()).toMatch(/^inline\.[0-9a-f]{40} 1$/);
    await redrive.configure(destination, {});
    expect(await policyOf()).toBe("background 1");
  });

  it("is pinned to the newest version at that time", async () => {
    await open();
    await redrive.policies.replace({ policyId: "webhook", maxAttempts: 3 });
    await redrive.configure(destination, { policy: "webhook" });
    expect(await policyOf()).toBe("webhook 1");
    await redrive.policies.replace({ policyId: "webhook", maxAttempts: 4 });
    expect(await policyOf()).toBe("webhook 2");
  });

  it("may be registered, and its version is followed or pinned", async () => {
    await open();
    await redrive.policies.replace({ policyId: "hooks-fast", maxAttempts: 3 });
    await redrive.configure(destination, { policy: "hooks-fast" });
    expect(await policyOf()).toBe("hooks-fast 1");
    await redrive.policies.replace({ policyId: "hooks-fast", maxAttempts: 4 });
    expect(await policyOf()).toBe("hooks-fast 2");
    const concurrency = { max: 3 };
    await redrive.configure(destination, { policy: "hooks-fast", policyVersion: 1, concurrency });
    expect([await policyOf(), await policyOf()]).toEqual(["hooks-fast 1", "hooks-fast 1"]);
    await redrive.policies.replace({ policyId: "hooks-fast", maxAttempts: 5 });
    expect(await policyOf()).toBe("hooks-fast 1");
    // The guards of such a document apply, too.
    expect((await redrive.healthOf(destination))?.concurrency?.limit).toBe(3);
  });

  it.each([
    [{ policy: "hooks-fats" }, 'there is no policy "hooks-fats", did you mean "hooks-fast"'],
    [{ policy: "hooks-fast", policyVersion: 7 }, 'no version 7 of policy "hooks-fast"'],
    [{ policy: { maxAttempts: 1 }, policyVersion: 1 }, "policyVersion must be used with the id"],
    [{ policyVersion: 1 }, "policyVersion must be used with the id"],
    [{ policy: "no such id" }, "policy must be"],
  ])("must exist: %j", async (document, message) => {
    await open();
    await redrive.policies.register({ policyId: "hooks-fast", maxAttempts: 3 });
    const problem = { code: "INVALID_DESTINATION", message: expect.stringContaining(message) };
    await expect(redrive.configure(destination, document)).rejects.toMatchObject(problem);
    expect(await redrive.healthOf(destination)).toBeNull();
  });

  it("is read as often for a batch as for one task", async () => {
    const store = memoryStore();
    let reads = 0;
    const getPolicy: Store["getPolicy"] = (...place) => {
      reads++;
      return store.getPolicy(...place);
    };
    redrive = await createRedrive({ store: { ...store, getPolicy } });
    const before = reads;
    const inputs = Array.from({ length: 100 }, () => ({ targetUrl, scheduledAt }));
    const results = await redrive.enqueueMany(inputs);
    expect(results.every(({ status }) => status === "fulfilled")).toBe(true);
    // One that finds nothing, and one after the preset was stored.
    expect(reads - before).toBe(2);
  });

  it("may change between two requests with one key", async () => {
    await open();
    const input = { targetUrl, scheduledAt, idempotencyKey: "order-1", body: "a" };
    const first = await redrive.enqueue(input);
    await redrive.configure(destination, { policy: "payment" });
    expect(await redrive.enqueue(input)).toEqual({ taskId: first.taskId, replayed: true });
    const other = redrive.enqueue({ ...input, policyId: "payment" });
    await expect(other).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
  });

  it("is rejected if it is invalid, and so is a hedge, which the service does not support", async () => {
    await open();
    const configure = (document: object) => redrive.configure(destination, document);
    await expect(configure({ policy: "nonsense" })).rejects.toMatchObject({
      code: "INVALID_DESTINATION",
    });
    await expect(configure({ hedge: { after: 50 } })).rejects.toMatchObject({
      code: "INVALID_DESTINATION",
      message: expect.stringContaining("hedge works only in the library"),
    });
    await configure({ hedge: false });
    expect(await policyOf()).toBe("background 1");
  });
});
