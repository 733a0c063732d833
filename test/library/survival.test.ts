/**
 * Survival: the advisor and lint say what share of the calls of a process survives an outage. Here the code
 * that they print runs, with the library, in the same outage: it must reach that share.
 */
import { advise, lint, survival } from "@redrive/simulator";
import { type Destination, destination } from "redrive";
import { seededRandom, type VirtualClock, virtualClock } from "redrive/testing";
import { describe, expect, test } from "vitest";

/** The share of calls of one process that survive an outage that begins with them. */
async function shareOf(
  calls: number,
  outageMs: number,
  run: (clock: VirtualClock, call: () => string, n: number) => Promise<unknown>,
): Promise<number> {
  const clock = virtualClock();
  const upAt = clock.now() + outageMs;
  const call = () => {
    if (clock.now() < upAt) throw Object.assign(new Error("down"), { status: 503 });
    return "done";
  };
  const all = Array.from({ length: calls }, (_, n) =>
    run(clock, call, n).then(
      () => 1,
      () => 0,
    ),
  );
  const ended = await clock.run(Promise.all(all));
  return ended.reduce((sum, one) => sum + one, 0 as number) / calls;
}

const withClock = (document: object, clock: VirtualClock): Destination =>
  destination("dependency", { ...document, clock, random: seededRandom("survival") });

describe("the code of the advisor reaches the share that it prints", () => {
  const answers = [
    { clients: "many", waits: "service", outageMs: 8000, callsPerProcess: 400 },
    { clients: "many", waits: "service", outageMs: 60_000, callsPerProcess: 100 },
    { clients: "very-many", waits: "job", outageMs: 60_000, callsPerProcess: 400 },
    { clients: "few", waits: "service", outageMs: 8000, callsPerProcess: 10 },
    { clients: "many", waits: "person", outageMs: 1000, callsPerProcess: 100 },
    { clients: "many", waits: "person", outageMs: 8000, callsPerProcess: 100, idempotent: "key" },
  ] as const;

  test.each(answers)("%o", async (given) => {
    const advice = advise(given);
    const { calls, share } = advice.survival;
    const clock = { shared: undefined as Destination | undefined };
    const reached = await shareOf(calls, given.outageMs, (virtual, call, n) => {
      clock.shared ??= withClock(advice.destination, virtual);
      const { patience } = advice;
      return clock.shared.run(call, { idempotencyKey: `order-${n}`, patience });
    });
    expect(reached).toBeGreaterThanOrEqual(share - 0.05);
    if (given.waits !== "person") expect(share).toBeGreaterThanOrEqual(advice.coverage - 0.01);
  });
});

describe("the destination of the README", () => {
  const policy = {
    maxAttempts: 8,
    initialDelayMs: 500,
    maxDelayMs: 5000,
    jitterType: "EQUAL",
    totalBudgetMs: 30_000,
  } as const;
  const payments = { policy, retryBudget: { ratio: 0.1 }, breaker: { openMs: 5000 } };

  test.each([
    ["wait", 1],
    ["fail-fast", 0],
  ] as const)("with patience %s: a share of %d of 400 calls", async (patience, share) => {
    const shared: Destination[] = [];
    const reached = await shareOf(400, 8000, (clock, call, n) => {
      shared[0] ??= withClock(payments, clock);
      return shared[0].run(call, { idempotencyKey: `order-${n}`, patience });
    });
    expect(reached).toBe(share);
    expect(survival(payments, 8000, { calls: 400, patience }).share).toBe(share);
  });

  test("costs 801 attempts of 20 ms instead of 2,428", async () => {
    const attemptsOf = async (document: object, patience: "wait" | "fail-fast") => {
      const clock = virtualClock();
      const upAt = clock.now() + 8000;
      const shared = withClock(document, clock);
      let attempts = 0;
      const pay = async () => {
        attempts++;
        await clock.sleep(20);
        if (clock.now() < upAt) throw Object.assign(new Error("down"), { status: 503 });
      };
      const calls = Array.from({ length: 400 }, (_, n) =>
        shared.run(pay, { idempotencyKey: `order-${n}`, patience }),
      );
      await clock.run(Promise.all(calls));
      return attempts;
    };
    expect(await attemptsOf(payments, "wait")).toBe(801);
    expect(await attemptsOf({ policy, retryBudget: false }, "fail-fast")).toBe(2428);
  });

  test("lint says that fail-fast loses the calls, and that waiting saves them", () => {
    const [finding] = lint(payments, { clients: 400, outageMs: 8000 });
    expect(finding).toMatchObject({
      id: "guards-lose-calls",
      severity: "error",
      figures: { calls: 400, survive: 0, policyAlone: 1, waiting: 1 },
    });
    expect(lint(payments, { clients: 400, outageMs: 8000, patience: "wait" })).toEqual([]);
  });
});
