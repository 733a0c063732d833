/** Tests that a bulk action sends every id once, can be stopped, and reports what happened. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { resultOf, runBulk } from "./selection-bar.tsx";

test("sends each id exactly once, in order, in batches that the service accepts", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 2600 }), async (count) => {
      const ids = Array.from({ length: count }, (_, n) => `t${n}`);
      const sent: string[] = [];
      const end = await runBulk(
        ids,
        async (batch) => {
          expect(batch.length).toBeLessThanOrEqual(1000);
          sent.push(...batch);
          return { done: batch.length, requested: 0, refused: [] };
        },
        () => true,
      );
      expect(sent).toEqual(ids);
      expect(end).toMatchObject({ total: count, sent: count, done: count });
    }),
    { numRuns: 20 },
  );
});

test("stops between batches, and says how many were left alone", async () => {
  const ids = Array.from({ length: 1200 }, (_, n) => `t${n}`);
  const refused = [{ taskId: "t0", code: "TASK_STATE_CONFLICT", detail: "" }];
  const end = await runBulk(
    ids,
    async (batch) => ({ done: batch.length - 2, requested: 1, refused }),
    () => false,
  );
  expect(resultOf({ done: "canceled" }, end)).toEqual([
    "498 tasks canceled.",
    "1 run now and end as canceled, unless they succeed.",
    "1 are in another state by now.",
    "Stopped: 700 were left alone.",
  ]);
});
