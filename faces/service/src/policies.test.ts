/** Tests of registering and replacing policies: of those who race, nobody's document is lost. */
import { afterEach, describe, expect, it } from "vitest";
import { createRedrive } from "./create-redrive.ts";
import type { Redrive } from "./redrive.ts";

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
});
