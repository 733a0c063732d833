/** Tests the counts behind the sparklines. */
import { expect, test } from "vitest";
import type { EventView } from "../service/client.ts";
import { countEvent, emptyActivity, SLOT_MS, SLOTS, seriesOf } from "./activity.ts";

const event = (type: string, at: number, attemptNumber = 1): EventView => ({
  id: "n-1",
  type,
  at,
  attemptNumber,
});
const total = (values: readonly number[]) => values.reduce((sum, each) => sum + each, 0);

test("a retry counts as an attempt and as a retry", () => {
  let activity = emptyActivity(0);
  activity = countEvent(activity, event("attempt.started", 5));
  activity = countEvent(activity, event("attempt.started", 6, 2));
  expect(seriesOf(activity, "attempts", 10)).toEqual([2]);
  expect(seriesOf(activity, "retries", 10)).toEqual([1]);
});

test("slots without events are zero, and the series begins with the counts", () => {
  const activity = countEvent(emptyActivity(SLOT_MS), event("task.exhausted", 3 * SLOT_MS));
  expect(seriesOf(activity, "dead", 4 * SLOT_MS)).toEqual([0, 0, 1, 0]);
});

test("only the last hour is kept and shown", () => {
  let activity = emptyActivity(0);
  for (let slot = 0; slot < 3 * SLOTS; slot++) {
    activity = countEvent(activity, event("task.succeeded", slot * SLOT_MS));
  }
  expect(activity.slots.size).toBe(SLOTS);
  expect(total(seriesOf(activity, "succeeded", 3 * SLOTS * SLOT_MS - 1))).toBe(SLOTS);
});
