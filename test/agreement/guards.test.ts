/**
 * Agreement with guards on, for all faces. One document, one seed and the same traffic give the
 * same attempts, holds and refusals, for the same reasons and at the same instants, in the library,
 * the simulator and the service. docs/guards.md lists where the service differs, and `compare.ts`
 * asserts it. To replay a failing document, put REDRIVE_SEED=123 before the command.
 */
import { Admission, enterThrottle, takeRate } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { hasSlot } from "../../core/src/guards/concurrency.ts";
import { memoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";
import {
  comparableCases,
  compareService,
  DOCUMENTS,
  hasOneResult,
  REDRIVE_SEED,
  replay,
  resultOf,
  unchanged,
} from "./compare.ts";
import { type GuardCase, guardCase } from "./guard-cases.ts";
import { type LibraryRun, runLibrary } from "./library-run.ts";
import { runSimulator } from "./simulator-run.ts";

test(`the simulator matches the library for ${DOCUMENTS} documents`, async () => {
  const reasons = new Set<string>();
  const holds = new Set<string>();
  let tied = 0;
  for await (const { given, library } of comparableCases(DOCUMENTS, unchanged, hasOneResult)) {
    expect(runSimulator(given), replay(given)).toEqual(resultOf(library));
    for (const { reason } of library.ends) reasons.add(reason);
    for (const { heldBy } of library.attempts) if (heldBy) holds.add(heldBy);
    if (hasTie(given, library)) tied++;
  }
  if (REDRIVE_SEED !== undefined) return;
  // The documents cover enough: many events at one instant, every guard held a call, and every refusal.
  expect(tied).toBeGreaterThan(DOCUMENTS / 2);
  expect([...holds].toSorted()).toEqual([
    "circuit-open",
    "concurrency",
    "rate",
    "retry-after",
    "retry-budget",
    "throttle",
  ]);
  for (const reason of ["circuit-open", "held", "overload", "retry-budget", "succeeded"]) {
    expect(reasons).toContain(reason);
  }
});

test(`the service on its memory store matches the library for ${DOCUMENTS} documents`, async () => {
  await compareService(DOCUMENTS, memoryStore);
});

/** Whether a call arrives, an attempt ends or a retry is due at the instant of another of these. */
function hasTie({ arrivals, outcomeOf }: GuardCase, { attempts, retries }: LibraryRun): boolean {
  const instants = [
    ...new Set(arrivals),
    ...attempts.map(
      ({ call, attempt, copy, at }) => at + outcomeOf(call, attempt, copy).durationMs,
    ),
    ...retries.map(({ dueAt }) => dueAt),
  ];
  return new Set(instants).size < instants.length;
}

/** The comparison must find a mutant within this many seeds. */
const MAX_SEEDS = 400;

/** Runs `fn`, the library's run, with another `Admission.enter`. */
async function withEnter<T>(enter: Admission["enter"], fn: () => Promise<T>): Promise<T> {
  const { enter: original } = Admission.prototype;
  Admission.prototype.enter = enter;
  try {
    return await fn();
  } finally {
    Admission.prototype.enter = original;
  }
}

// skipped: a replay runs a single document, and mutants need many
describe.skipIf(REDRIVE_SEED !== undefined)(
  "the comparison finds a face that swaps two guards",
  () => {
    const { enter } = Admission.prototype;

    const mutants: readonly (readonly [string, Admission["enter"]])[] = [
      [
        "the throttle draws before the rate and the slots are checked",
        function (this: Admission, applicant, breaker, now) {
          const { throttle } = this.guards;
          const refused = throttle && this.check(applicant, breaker, now) !== undefined;
          // Half of the held calls are refused and count as requests.
          if (refused) enterThrottle(throttle, now, 0.5);
          return enter.call(this, applicant, breaker, now);
        },
      ],
      [
        "the rate is taken before the slots are checked",
        function (this: Admission, applicant, breaker, now) {
          const { rate, concurrency } = this.guards;
          if (rate && concurrency && !hasSlot(concurrency, applicant.kind !== "first")) {
            takeRate(rate, now);
          }
          return enter.call(this, applicant, breaker, now);
        },
      ],
    ];

    test.each(mutants)("%s", async (_, mutant) => {
      for (let seed = 1; seed <= MAX_SEEDS; seed++) {
        const given = guardCase(seed);
        const library = await withEnter(mutant, () => runLibrary(given));
        if (!hasOneResult(given, library)) continue;
        if (JSON.stringify(runSimulator(given)) !== JSON.stringify(resultOf(library))) return;
      }
      expect.fail(`not found within ${MAX_SEEDS} seeds`);
    });
  },
);
