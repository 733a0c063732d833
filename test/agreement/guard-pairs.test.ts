/**
 * Guard pairs: pairs of guards that the library and the simulator once treated differently, each
 * with 1,000 calls. Both faces now let the same number of calls succeed.
 */
import { type DestinationDocument, seededRandom } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";
import { resultOf } from "./compare.ts";
import type { GuardCase } from "./guard-cases.ts";
import type { GuardedRun } from "./guarded-run.ts";
import { runLibrary } from "./library-run.ts";
import { runService } from "./service-run.ts";
import { runSimulator } from "./simulator-run.ts";

const OFF = { retryBudget: false, breaker: false, concurrency: false } as const;
/**
 * Arrivals, ends and retries have different remainders modulo 16 ms. Two kinds of events therefore
 * never share an instant, where each face could choose the order.
 */
const STEP_MS = 16;
const POLICY = {
  maxAttempts: 3,
  initialDelayMs: 2 * STEP_MS + 2,
  jitterType: "NONE",
  totalBudgetMs: 60_000,
} as const;

/** One call every `gapMs` on average, to a server that fails a share of them. */
function traffic(document: DestinationDocument, gapMs: number, failures = 0.1): GuardCase {
  const random = seededRandom("table").fork("arrivals");
  let at = 0;
  const arrivals = Array.from({ length: 1000 }, () => {
    at += STEP_MS * Math.floor((random.next() * 2 * gapMs) / STEP_MS + 0.5);
    return at;
  });
  return {
    seed: 1,
    document: { ...OFF, policy: POLICY, ...document },
    patience: "fail-fast",
    arrivals,
    outcomeOf(call, attempt, copy) {
      const own = seededRandom("table").fork(`end/${call}/${attempt}/${copy}`);
      const isFailed = own.next() < failures;
      const durationMs = STEP_MS * (1 + Math.floor(own.next() * 4)) + 1;
      return {
        outcome: isFailed ? { kind: "status", status: 503 } : { kind: "success" },
        durationMs,
      };
    },
  };
}

const fixed = { algorithm: "FIXED", max: 4, queue: 50 } as const;

const once = { policy: { maxAttempts: 1, totalBudgetMs: 60_000 } } as const;
const breaker = { openMs: 500, minCalls: 10 } as const;
const retryBudget = { ratio: 0.1, minPerSecond: 0.1 } as const;

const guardPairs: readonly (readonly [string, GuardCase])[] = [
  ["throttle + queue", traffic({ ...once, rate: { throttle: true }, concurrency: fixed }, 12, 0.3)],
  ["hedge + rate", traffic({ hedge: { after: 40 }, rate: { perSecond: 20 } }, 50)],
  ["hedge + throttle", traffic({ hedge: { after: 40 }, rate: { throttle: true } }, 20)],
  ["maxRetries 0 + queue", traffic({ concurrency: { ...fixed, maxRetries: 0 } }, 12, 0.3)],
  ["ratio budget + breaker", traffic({ retryBudget, breaker }, 20, 0.4)],
];

const succeeded = ({ ends }: GuardedRun) =>
  ends.filter(({ reason }) => reason === "succeeded").length;

describe("1,000 calls", () => {
  test.each(guardPairs)("%s", async (name, given) => {
    const library = succeeded(await runLibrary(given));
    const simulator = succeeded(runSimulator(given));
    process.stdout.write(`${name}: library ${library}, simulator ${simulator} of 1000 succeed\n`);
    expect(simulator).toBe(library);
  });
});

/** Number of calls that were sent, refused and held at the instant of their arrival. */
function atOnce({ attempts, ends }: GuardedRun) {
  const sent = attempts.filter(({ at }) => at === 0).length;
  const refused = ends.filter(({ at }) => at === 0).length;
  return { sent, refused, held: 40 - sent - refused };
}

test("every face with a rate of 4 and a throttle sends 4 of 40 simultaneous calls and holds the rest", async () => {
  const given: GuardCase = {
    ...traffic({ rate: { perSecond: 4, throttle: true } }, 1),
    arrivals: Array.from({ length: 40 }, () => 0),
    outcomeOf: () => ({ outcome: { kind: "success" }, durationMs: 10 }),
  };
  const expected = { sent: 4, refused: 0, held: 36 };
  expect(atOnce(await runLibrary(given))).toEqual(expected);
  expect(atOnce(runSimulator(given))).toEqual(expected);
  expect(atOnce(await runService({ ...given, patience: "wait" }, memoryStore()))).toEqual(expected);
});

/**
 * A call of 80 ms every 50 ms on average, in whole ms, and copies after 50 ms. Each token of 20 per second
 * is wanted, and many copies are due when a token is free, or when a call arrives or ends.
 */
function busyHedges(seed: number): GuardCase {
  const policy = { maxAttempts: 1, totalBudgetMs: 5000 };
  const random = seededRandom(seed).fork("arrivals");
  const arrivals: number[] = [];
  for (let at = 0; at < 54_000; at += Math.floor(-50 * Math.log(1 - random.next())))
    arrivals.push(at);
  return {
    ...traffic({ hedge: { after: 50 }, rate: { perSecond: 20 }, policy }, 50),
    seed,
    arrivals,
    outcomeOf: () => ({ outcome: { kind: "success" }, durationMs: 80 }),
  };
}

test("with 20 tokens per second and hedges after 50 ms, no copy takes the token of a call that waits", async () => {
  process.stdout.write("seed  calls  library  simulator  copies\n");
  for (let seed = 1; seed <= 24; seed++) {
    const given = busyHedges(seed);
    const library = await runLibrary(given);
    const simulator = runSimulator(given);
    const copies = library.attempts.filter(({ copy }) => copy > 0).length;
    const row = [seed, given.arrivals.length, succeeded(library), succeeded(simulator), copies];
    process.stdout.write(`${row.map((value) => `${value}`.padStart(5)).join("   ")}\n`);
    expect(simulator).toEqual(resultOf(library));
    expect(succeeded(library)).toBe(given.arrivals.length);
  }
}, 60_000);
