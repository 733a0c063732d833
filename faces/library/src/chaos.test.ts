/** Tests of chaos: the requested share of faults, from a seed, and none when it is off. */
import { describe, expect, test } from "vitest";
import type { AttemptContext } from "./call/options.ts";
import { retry } from "./call/retry.ts";
import { rejectionOf, START_AT, world } from "./call/world.testing.ts";
import { chaos } from "./chaos.ts";

async function shareOfFailures(failureRate: number, calls = 1000): Promise<number> {
  const { clock, random } = world("chaos");
  const fn = chaos(() => "fine", { failureRate, clock, random });
  let failures = 0;
  for (let n = 0; n < calls; n++) {
    await retry(fn, { clock, maxAttempts: 1 }).catch(() => failures++);
  }
  return failures / calls;
}

describe("faults", () => {
  test("occur in the requested share", async () => {
    expect(await shareOfFailures(0)).toBe(0);
    expect(await shareOfFailures(1, 50)).toBe(1);
    const share = await shareOfFailures(0.3);
    expect(share).toBeGreaterThan(0.25);
    expect(share).toBeLessThan(0.35);
  });

  test("look like a broken connection, or are the caller's own", async () => {
    const { random } = world();
    const plain = chaos(() => 1, { failureRate: 1, random });
    const once = { maxAttempts: 1 };
    expect(await rejectionOf(retry(plain, once))).toMatchObject({ code: "ECONNRESET" });
    const own = chaos(() => 1, { failureRate: 1, random, fault: () => new Error("mine") });
    expect(await rejectionOf(retry(own, once))).toMatchObject({ message: "mine" });
  });

  test("are retried by a policy", async () => {
    const { clock, random } = world();
    const fn = chaos(() => "fine", { failureRate: 0.5, random, clock });
    const options = { clock, random, maxAttempts: 20 };
    for (let n = 0; n < 20; n++) expect(await clock.run(retry(fn, options))).toBe("fine");
  });
});

describe("latency", () => {
  test("is added within its range", async () => {
    const { clock, random } = world();
    const fn = chaos(() => clock.now(), { latencyMs: [100, 200], clock, random });
    for (let n = 0; n < 20; n++) {
      const before = clock.now();
      const tookMs = (await clock.run(retry(fn, { clock }))) - before;
      expect(tookMs).toBeGreaterThanOrEqual(100);
      expect(tookMs).toBeLessThanOrEqual(201);
    }
  });

  test("ends when the attempt is aborted", async () => {
    const { clock, random } = world();
    let calls = 0;
    const fn = chaos(() => calls++, { latencyMs: 60_000, clock, random });
    await rejectionOf(clock.run(retry(fn, { clock, maxAttempts: 1, attemptTimeoutMs: 100 })));
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
    expect(calls).toBe(0);
    expect(clock.now() - START_AT).toBeLessThan(200);
  });
});

test("off: no random draws and no delays", async () => {
  const { clock, random } = world();
  const isOn = () => false;
  const fn = chaos(() => "fine", { failureRate: 1, latencyMs: 1000, isOn, clock, random });
  expect(await retry(fn, { clock })).toBe("fine");
  expect(clock.now()).toBe(START_AT);
});

test("bounds are checked", () => {
  const fn = () => 1;
  expect(() => chaos(fn, { failureRate: 2 })).toThrow("failureRate must be 0 to 1, got 2");
  expect(() => chaos(fn, { latencyRate: -1 })).toThrow("latencyRate must be 0 to 1, got -1");
  expect(() => chaos(fn, { latencyMs: [5, 1] })).toThrow("latencyMs must be 5 to 600000, got 1");
});

test("loses responses after the effect: without a key, a retry repeats a charge", async () => {
  const { clock, random } = world("lost responses");
  const byKey = new Map<string | undefined, number>();
  const charge = ({ idempotencyKey }: AttemptContext) => {
    byKey.set(idempotencyKey, (byKey.get(idempotencyKey) ?? 0) + 1);
    return "receipt";
  };
  const unreliable = chaos(charge, { loseRate: 0.5, clock, random });
  for (let order = 0; order < 50; order++) {
    const options = { idempotencyKey: `order-${order}`, maxAttempts: 20, clock, random };
    expect(await clock.run(retry(unreliable, options))).toBe("receipt");
  }
  const charged = [...byKey.values()];
  expect(charged).toHaveLength(50);
  // Half of the responses are lost, so an order is charged twice on average. The key shows the repetitions.
  const total = charged.reduce((sum, times) => sum + times, 0);
  expect(total).toBeGreaterThan(75);
  expect(total).toBeLessThan(130);
});

test("refuses a share above 1", () => {
  expect(() => chaos(() => 1, { loseRate: 1.5 })).toThrow("loseRate");
});
