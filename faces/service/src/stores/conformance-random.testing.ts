/**
 * Conformance of random batches: a store gives the same results, and in the end has the same content,
 * as the memory store. A part of `conformance.testing.ts`.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../model/store.ts";
import { memoryStore } from "./memory/memory-store.ts";
import { contentOf, normalized } from "./store-content.testing.ts";
import { randomSteps, StepRunner } from "./store-steps.testing.ts";

const RUNS = 25;

/** Ends the search for a smaller counterexample, which is slow on a store that syncs to disk. */
const MAX_MS = 40_000;

export function randomConformance(open: () => Promise<Store>): void {
  describe("random batches", () => {
    it("have the same results and leave the same content as in the memory store", async () => {
      await fc.assert(
        fc.asyncProperty(randomSteps(), async (steps) => {
          const store = await open();
          try {
            const { exclusive, partitions } = store;
            const model = memoryStore({ exclusive, partitions });
            const runners = [new StepRunner(store), new StepRunner(model)] as const;
            for (const [index, step] of steps.entries()) {
              const [result, expected] = await Promise.all(runners.map((run) => run.apply(step)));
              expect(normalized(result), `step ${index}: ${step.kind}`).toEqual(
                normalized(expected),
              );
            }
            expect(await contentOf(store)).toEqual(await contentOf(model));
          } finally {
            await store.close();
          }
        }),
        { numRuns: RUNS, interruptAfterTimeLimit: MAX_MS },
      );
    });
  });
}
