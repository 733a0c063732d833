/** Tests of registering and replacing policies: of those who race, nobody's document is lost. */
import { afterEach, describe, expect, it } from "vitest";
import { createRedrive } from "./create-redrive.ts";
import type { Redrive } from "./redrive.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";

let redrive: Redrive;
afterEach(() => redrive.stop());

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

  it("that are replaced at once all become versions, each its own", async () => {
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

  it("that are registered at once with other documents are refused but for one", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const results = await Promise.allSettled(
      [2, 3, 3].map((maxAttempts) => redrive.policies.register({ policyId: "mine", maxAttempts })),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(results[1]).toMatchObject({ reason: { code: "POLICY_CONFLICT" } });
  });

  it("that others always change first are refused in the end, however they are changed", async () => {
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
});
