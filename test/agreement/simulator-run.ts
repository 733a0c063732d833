/** Simulator run: runs a guard case through the simulator's general engine. */
import { seededRandom } from "@redrive/core";
import { simulateCalls } from "@redrive/simulator";
import type { GuardCase } from "./guard-cases.ts";
import { type GuardedRun, sortedRun } from "./guarded-run.ts";
import { keyOf, NAME, START_AT } from "./library-run.ts";

export function runSimulator(given: GuardCase): GuardedRun {
  const { document, patience, arrivals } = given;
  const random = seededRandom(given.seed).fork(NAME);
  const { attempts, ends } = simulateCalls({
    destination: document,
    patience,
    startAt: START_AT,
    arrivals,
    outcomeOf: (call, attempt, copy) => given.outcomeOf(call, attempt, copy),
    randomOf: (call) => random.fork(keyOf(call)),
    guardRandom: random.fork("guards"),
  });
  return sortedRun({
    attempts,
    ends: ends.map(({ call, at, reason, by }) => ({ call, at, reason, ...(by && { by }) })),
  });
}
