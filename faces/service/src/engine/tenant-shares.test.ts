/** Tests that a tenant with many failing destinations leaves other tenants their share. */
import { describe, expect, it } from "vitest";
import { T0, TENANT } from "../stores/store.testing.ts";
import { FAILED, OK, type Sent, setup } from "./engine.testing.ts";

const BUSY = "busy";

/** A busy tenant whose destinations all fail, next to another tenant. */
async function besideBusyTenant(destinations: number, tasksEach: number) {
  const policy = {
    initialDelayMs: 60,
    backoff: "FIXED",
    jitterType: "NONE",
    maxAttempts: 10,
  } as const;
  const world = await setup(policy, T0);
  const { store, clock, enqueue, sent } = world;
  const shared = { policyId: "background", version: 1, createdAt: T0 };
  await store.addPolicy({ ...shared, tenantId: BUSY, document: JSON.stringify(policy) });
  let ended = 0;
  /** Ends the attempts of the busy tenant with a failure, and runs for that long. */
  const run = async (ms: number, outcomeOf: (one: Sent) => typeof OK = () => FAILED) => {
    for (let passed = 0; passed < ms; passed += 20) {
      await clock.advance(20);
      for (; ended < sent.length; ended++) {
        const one = sent[ended] as Sent;
        one.finish(one.task.tenantId === BUSY ? FAILED : outcomeOf(one));
      }
    }
  };
  for (let n = 0; n < destinations; n++) {
    for (let task = 0; task < tasksEach; task++) enqueue({ tenantId: BUSY, destination: `d${n}` });
  }
  return { ...world, run };
}

describe("next to a tenant with 300 failing destinations", () => {
  it("the retry of another tenant is sent within 500 ms", async () => {
    const { run, enqueue, sent } = await besideBusyTenant(300, 10);
    await run(12_000);
    const retries = sent.filter(({ task }) => task.attemptNumber > 1);
    expect(retries.length).toBeGreaterThan(800);
    const { task } = enqueue();
    await run(1000, ({ task: { attemptNumber } }) => (attemptNumber === 1 ? FAILED : OK));
    const own = sent.filter(({ task: { taskId } }) => taskId === task.taskId);
    expect(own.map(({ task: { tenantId } }) => tenantId)).toEqual([TENANT, TENANT]);
    const [first, second] = own.map(({ at }) => at);
    expect((second ?? Number.NaN) - (first ?? 0)).toBeLessThan(500);
  });
});
