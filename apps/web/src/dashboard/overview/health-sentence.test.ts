/** Tests the sentence of the overview and the reading of a metric. */
import { expect, test } from "vitest";
import { healthSentence, oldestAge } from "./health-sentence.ts";

test("the sentence names trouble, waiting tasks and dead letters", () => {
  expect(healthSentence({ total: 14, troubled: 2, totals: { PENDING: 1204, EXHAUSTED: 1 } })).toBe(
    "Trouble at 2 of 14 destinations; 1,204 waiting, 1 dead letter.",
  );
  expect(healthSentence({ total: 1, troubled: 0, totals: {} })).toBe(
    "No trouble at 1 destination; 0 waiting, 0 dead letters.",
  );
});

test("the age of the oldest task is read from the metrics", () => {
  const text =
    "# HELP retry_oldest_task_age_seconds x\nretry_oldest_task_age_seconds 1.5\nother 9\n";
  expect(oldestAge(text)).toBe(1500);
  expect(oldestAge("other 9\n")).toBeUndefined();
});
