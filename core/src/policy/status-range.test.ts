/** Tests of ranges of HTTP statuses. */
import { expect, test } from "vitest";
import { statusRange } from "./status-range.ts";

test("a range includes both ends, and may be a single status", () => {
  expect(statusRange(500, 503)).toEqual([500, 501, 502, 503]);
  expect(statusRange(410, 410)).toEqual([410]);
});
