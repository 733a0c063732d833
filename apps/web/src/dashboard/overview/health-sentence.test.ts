/** Tests the sentence of the overview. */
import { expect, test } from "vitest";
import { healthSentence } from "./health-sentence.ts";

test("the sentence names trouble, waiting tasks and dead letters", () => {
  expect(healthSentence({ total: 14, troubled: 2, totals: { PENDING: 1204, EXHAUSTED: 1 } })).toBe(
    "Trouble at 2 of 14 destinations; 1,204 waiting, 1 dead letter.",
  );
  expect(healthSentence({ total: 1, troubled: 0, totals: {} })).toBe(
    "No trouble at 1 destination; 0 waiting, 0 dead letters.",
  );
});
