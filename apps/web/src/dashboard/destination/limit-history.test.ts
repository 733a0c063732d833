/** Tests that every change of a limit has a reason, and that the line is in order. */
import { expect, test } from "vitest";
import type { LimitChange } from "../service/client.ts";
import { limitLine, limitReason } from "./limit-history.ts";

const change = (fields: Partial<LimitChange>): LimitChange => ({
  sinceAt: 100,
  at: 200,
  from: 20,
  to: 30,
  cause: "successes",
  detail: null,
  steps: 10,
  ...fields,
});

test.each([
  [{}, "10 calls succeeded"],
  [{ cause: "overload", detail: "503", steps: 1 }, "503 (cut once)"],
  [{ cause: "overload", detail: "timeout", steps: 3 }, "timed out (cut 3 times)"],
  [{ cause: "latency" }, "as fast as usual"],
  [{ cause: "latency", to: 10 }, "longer than usual"],
  [{ cause: "ramp-started", to: 1 }, "open circuit"],
  [{ cause: "ramp" }, "One more slot per success"],
  [{ cause: "ramp", to: 3 }, "failed during the ramp"],
  [{ cause: "document" }, "document changed"],
] as const)("%j is explained", (fields, text) => {
  expect(limitReason(change(fields as Partial<LimitChange>))).toContain(text);
});

test("the line goes from the first limit to the last one, and on to now", () => {
  expect(limitLine([], 500)).toEqual([]);
  expect(limitLine([change({}), change({ sinceAt: 300, at: 300, from: 30, to: 27 })], 500)).toEqual(
    [
      { at: 100, limit: 20 },
      { at: 200, limit: 30 },
      { at: 300, limit: 30 },
      { at: 300, limit: 27 },
      { at: 500, limit: 27 },
    ],
  );
});
