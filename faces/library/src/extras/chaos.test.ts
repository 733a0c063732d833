/** Tests of chaos: as much trouble as was asked for, from a seed, and none when it is off. */
import { describe, expect, test } from "vitest";
import { retry } from "../call/retry.ts";
import { rejectionOf, START_AT, world } from "../call/world.testing.ts";
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
  test("come in the share that was asked for", async () => {
    expect(await shareOfFailures(0)).toBe(0);
    expect(await shareOfFailures(1, 50)).toBe(1);
    const share = await shareOfFailures(0.3);
    expect(share).toBeGreaterThan(0.25);
    expect(share).toBeLessThan(0.35);
  });

  test("look like a broken connection, or as the caller likes", async () => {
    const { random } = world();
    const plain = chaos(() => 1, { failureRate: 1, random });
    const once = { maxAttempts: 1 };
    expect(await rejectionOf(retry(plain, once))).toMatchObject({ code: "ECONNRESET" });
    const own = chaos(() => 1, { failureRate: 1, random, fault: () => new Error("mine") });
    expect(await rejectionOf(retry(own, once))).toMatchObject({ message: "mine" });
  });

  test("are what a policy gets over", async () => {
    const { clock, random } = world();
    const fn = chaos(() => "fine", { failureRate: 0.5, random, clock });
    const options = { clock, random, maxAttempts: 20 };
    for (let n = 0; n < 20; n++) expect(await clock.run(retry(fn, options))).toBe("fine");
  });
});

describe("latency", () => {
  test("is added within its span", async () => {
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

test("off is off: neither drawn for nor delayed", async () => {
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
