/** Strategies and delay lists: both can be set and read back. */
import { presets, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  labeledProblem,
  type StrategyId,
  strategyLabels,
  strategyName,
  strategyOf,
  withStrategy,
} from "./curve-store.ts";
import { formatDelays, parseDelays } from "./delay-list-field.tsx";

const ids = Object.keys(strategyLabels) as StrategyId[];

test("shows the chosen strategy, whatever the document was before", () => {
  for (const document of [
    ...Object.values(presets),
    { backoff: "LINEAR", jitterType: "FULL" } as const,
  ]) {
    for (const id of ids) {
      const changed = withStrategy(document, id);
      expect(() => resolvePolicy(changed)).not.toThrow();
      expect(strategyOf(changed)).toBe(id);
    }
  }
});

test("a mixed strategy has a name but no button", () => {
  const mixed = { backoff: "LINEAR", jitterType: "FULL" } as const;
  expect(strategyOf(mixed)).toBeUndefined();
  expect(strategyName(mixed)).toBe("Linear, full jitter");
});

test("a formatted list parses to the same waits", () => {
  const delays = fc.array(fc.integer({ min: 0, max: 2_592_000_000 }), {
    minLength: 1,
    maxLength: 50,
  });
  fc.assert(
    fc.property(delays, (list) => {
      expect(parseDelays(formatDelays(list))).toEqual(list);
    }),
  );
});

test.each([
  ["", "empty"],
  ["1s, two", "“two”"],
  ["31d", "“31d”"],
  ["-5s", "“-5s”"],
])("%j is rejected with a message", (text, word) => {
  expect(parseDelays(text)).toContain(word);
});

test("a wait has a unit, as on the command line", () => {
  expect(parseDelays("100ms 2s;5m")).toEqual([100, 2000, 300_000]);
  expect(parseDelays("2s, 100")).toContain("did you mean 100ms or 100s?");
});

const problemOf = (document: object): string => {
  try {
    resolvePolicy(document);
    return "";
  } catch (error) {
    return labeledProblem((error as Error).message);
  }
};

test("a base above the deadline is explained with the labels and units of the page", () => {
  expect(problemOf({ initialDelayMs: 60_000, totalBudgetMs: 30_000 })).toBe(
    "The deadline must be at least the first wait and call (60000 + 1 ms), got 30000 ms",
  );
});

test("counts have no unit", () => {
  expect(problemOf({ maxAttempts: 0 })).toMatch(/^The attempts must be .* got 0$/u);
});
