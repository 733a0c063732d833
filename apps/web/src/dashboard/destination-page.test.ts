/** Tests the reasons and the line of changes of a limit, and the words for what was simulated. */
import { expect, test } from "vitest";
import { inputsText, limitLine, limitReason, runAddress } from "./destination-page.tsx";
import type { LimitChange, SimulationView } from "./parts/client.ts";

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
  [{}, "Calls succeeded while"],
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

const inputs = {
  ratePerSecond: 8.333,
  measuredMinutes: 1,
  latency: { p50Ms: 40.4, p99Ms: 1200 },
  waiting: 1,
} as NonNullable<SimulationView["inputs"]>;

test("says with which figures the service simulated", () => {
  expect(inputsText(inputs)).toBe(
    "8.33 calls per second in 1 minute, p50 40 ms, p99 1.2 s, 1 task waits.",
  );
  expect(inputsText({ ...inputs, measuredMinutes: 7, waiting: 1200 })).toContain(
    "in 7 minutes, p50 40 ms, p99 1.2 s, 1,200 tasks wait.",
  );
});

test("opens the run in the simulator beside the page", () => {
  expect(runAddress({ pageUrl: "/ui/simulator#1.abc" })).toBe("./simulator#1.abc");
});
