/** Tests of a store that fails outside the commits of tasks: the caller gets an error code. */
import { afterEach, describe, expect, it } from "vitest";
import { createRedrive } from "./create-redrive.ts";
import type { Store } from "./model/store.ts";
import { StoreBrokenError, StoreFullError } from "./model/store-errors.ts";
import type { Redrive } from "./redrive.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";

const targetUrl = "http://127.0.0.1:7999/";
let redrive: Redrive;
afterEach(() => redrive.stop());

async function redriveOn(broken: Partial<Store>): Promise<{ readonly fatal: readonly unknown[] }> {
  const fatal: unknown[] = [];
  const store = { ...memoryStore(), ...broken };
  redrive = await createRedrive({ store, onFatal: (error) => fatal.push(error) });
  return { fatal };
}

const full = () => Promise.reject(new StoreFullError("no space left for a.db"));
const broken = () => Promise.reject(new StoreBrokenError("a.db failed"));

describe("a store that fails", () => {
  it("to add a policy rejects the task that brings it with STORE_FULL", async () => {
    await redriveOn({ addPolicy: full });
    const task = redrive.enqueue({ targetUrl, policy: { maxAttempts: 2 } });
    await expect(task).rejects.toMatchObject({ code: "STORE_FULL" });
    const policy = redrive.policies.register({ policyId: "mine" });
    await expect(policy).rejects.toMatchObject({ code: "STORE_FULL" });
  });

  it("to write a destination rejects its pause with STORE_FULL", async () => {
    await redriveOn({ commit: full });
    await expect(redrive.pause("there")).rejects.toMatchObject({ code: "STORE_FULL" });
  });

  it("to list rejects the list and a redrive with STORE_UNAVAILABLE", async () => {
    const { query } = memoryStore();
    const list = () => Promise.reject(new Error("reading a.db failed: disk I/O error"));
    await redriveOn({ query: { ...query, list } });
    await expect(redrive.list()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const job = redrive.jobs.start({ tenantId: "default", filter: {} });
    await expect(job).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });

  it("because it is broken ends the service at once, whoever finds out", async () => {
    const { fatal } = await redriveOn({ addPolicy: broken });
    const task = redrive.enqueue({ targetUrl, policy: { maxAttempts: 2 } });
    await expect(task).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(fatal).toHaveLength(1);
    expect(redrive.isRunning()).toBe(false);
  });
});
