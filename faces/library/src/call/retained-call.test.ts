/**
 * Tests that one call with the current hidden class stays alive, so that a full collection does not
 * discard the code compiled for calls.
 */
import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";
import { expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { CallExecution } from "./call-execution.ts";
import type { AttemptContext } from "./options.ts";
import { retry } from "./retry.ts";
import { statusError, untilAborted, world } from "./world.testing.ts";

setFlagsFromString("--allow-natives-syntax");
const haveSameMap: (a: object, b: object | undefined) => boolean = runInThisContext(
  "(a, b) => %HaveSameMap(a, b)",
);

/** The context of the first attempt is the call object itself. */
async function newCall(): Promise<AttemptContext> {
  return retry((context) => context);
}

async function expectRetained(): Promise<void> {
  expect(haveSameMap(await newCall(), CallExecution.retained)).toBe(true);
}

test("after a call that succeeds", expectRetained);

test("after the first retry that stores a number beyond 32 bits", async () => {
  const { clock, random } = world();
  const policy = { maxAttempts: 2, initialDelayMs: 10 };
  const retryBudget = { kind: "RATIO", windowMs: 1000, minPerSecond: 100 } as const;
  const ours = destination("first", { policy, retryBudget, clock, random });
  const call = ours.run(() => Promise.reject(statusError(503))).catch(() => undefined);
  await clock.advance(1000);
  await call;
  await expectRetained();
});

test("after retries, waits, timeouts, hedges and failures", async () => {
  const { clock, random } = world();
  const policy = { maxAttempts: 3, attemptTimeoutMs: 1000, initialDelayMs: 10 };
  const ours = destination("kept", {
    policy,
    retryBudget: { kind: "RATIO", windowMs: 1000, minPerSecond: 100 },
    breaker: { minCalls: 2 },
    concurrency: { algorithm: "FIXED", max: 1, queue: 5 },
    hedge: { after: 100 },
    clock,
    random,
  });
  const throwing = () => Promise.reject(statusError(503));
  for (const fn of [throwing, untilAborted, () => 1, throwing]) {
    const calls = [1, 2].map(() => ours.run(fn, { patience: "wait" }).catch(() => undefined));
    await clock.advance(60_000);
    await Promise.all(calls);
    await expectRetained();
  }
});
