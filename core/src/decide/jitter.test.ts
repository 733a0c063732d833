/** Tests of jitter: exact picks, and the shape of each distribution. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../time/virtual.ts";
import { compilePolicy } from "./compiled-policy.ts";
import { jitteredMs, uniformInteger } from "./jitter.ts";
import { anyDraw } from "./policy.testing.ts";
import { type JitterType, type PolicyDocument, resolvePolicy } from "./policy.ts";

const LAST = 1 - Number.EPSILON / 2;

function waits(document: PolicyDocument, attempt: number, count: number): number[] {
  const kernel = compilePolicy(resolvePolicy(document));
  const random = seededRandom(`${document.jitterType}-${attempt}`);
  return Array.from({ length: count }, () => {
    let previous = 0;
    for (let n = 1; n <= attempt; n++) previous = kernel.delayMs(n, previous, random.next());
    return previous;
  });
}

/** Share of the fullest and emptiest of `cells` equal cells, relative to an even spread. */
function spread(values: readonly number[], low: number, high: number, cells: number) {
  const counts = new Array<number>(cells).fill(0);
  for (const value of values) {
    const cell = Math.min(cells - 1, Math.floor(((value - low) / (high - low + 1)) * cells));
    counts[cell] = (counts[cell] ?? 0) + 1;
  }
  const even = values.length / cells;
  return { fullest: Math.max(...counts) / even, emptiest: Math.min(...counts) / even };
}

describe("exact picks at chosen draws", () => {
  const at = (jitterType: JitterType, draw: number, extra: PolicyDocument = {}) =>
    jitteredMs(resolvePolicy({ jitterType, ...extra }), 1000, draw, 100, 250);

  test.each([
    ["NONE", [1000, 1000, 1000, 1000]],
    ["FULL", [0, 400, 500, 1000]],
    ["EQUAL", [500, 700, 750, 1000]],
    ["PROPORTIONAL", [800, 960, 1000, 1200]],
    ["DECORRELATED", [100, 360, 425, 750]],
  ] as const)("%s", (jitterType, expected) => {
    expect([0, 0.4, 0.5, LAST].map((draw) => at(jitterType, draw))).toEqual(expected);
  });

  test("decorrelated starts from the initial delay and applies the cap before the draw", () => {
    const policy = resolvePolicy({ jitterType: "DECORRELATED", maxDelayMs: 600 });
    expect(jitteredMs(policy, 100, LAST, 100, 0)).toBe(300);
    expect(jitteredMs(policy, 100, 0, 100, 0)).toBe(100);
    expect(jitteredMs(policy, 600, LAST, 100, 500)).toBe(600);
    expect(jitteredMs(policy, 600, 0.5, 100, 500)).toBe(350);
  });

  test("decorrelated works with its first ceiling at the cap", () => {
    const curve = { initialDelayMs: 500, maxDelayMs: 500 };
    const policy = resolvePolicy({ jitterType: "DECORRELATED", ...curve });
    expect(jitteredMs(policy, 500, 0.9, 500, 500)).toBe(500);
  });

  test("the ratio sets the spread of proportional jitter", () => {
    expect(at("PROPORTIONAL", 0, { jitterRatio: 0.25 })).toBe(750);
    expect(at("PROPORTIONAL", LAST, { jitterRatio: 1 })).toBe(2000);
    expect(at("PROPORTIONAL", 0.7, { jitterRatio: 0 })).toBe(1000);
  });
});

describe("uniformInteger", () => {
  test("reaches every whole number between its ends, and no other", () => {
    const seen = new Set<number>();
    for (let i = 0; i < 1000; i++) seen.add(uniformInteger(3, 7, i / 1000));
    expect([...seen].sort()).toEqual([3, 4, 5, 6, 7]);
  });

  test("stays within its ends for any range and draw", () => {
    const range = fc.integer({ min: 0, max: 2 ** 45 });
    fc.assert(
      fc.property(range, range, anyDraw, (low, width, draw) => {
        const value = uniformInteger(low, low + width, draw);
        expect(Number.isSafeInteger(value)).toBe(true);
        expect(value).toBeGreaterThanOrEqual(low);
        expect(value).toBeLessThanOrEqual(low + width);
      }),
    );
  });
});

describe("distributions", () => {
  const base = { initialDelayMs: 100, maxDelayMs: 30_000, totalBudgetMs: 3_600_000 };

  test.each([
    ["FULL", 0, 30_000],
    ["EQUAL", 15_000, 30_000],
    ["PROPORTIONAL", 24_000, 36_000],
  ] as const)("%s at the cap is evenly distributed", (jitterType, low, high) => {
    const { fullest, emptiest } = spread(waits({ ...base, jitterType }, 14, 20_000), low, high, 50);
    expect(emptiest).toBeGreaterThan(0.75);
    expect(fullest).toBeLessThan(1.25);
  });

  test("every millisecond of a small ceiling is picked, the ends as often as the middle", () => {
    const values = waits({ ...base, jitterType: "FULL", initialDelayMs: 9 }, 1, 20_000);
    const { fullest, emptiest } = spread(values, 0, 9, 10);
    expect(emptiest).toBeGreaterThan(0.9);
    expect(fullest).toBeLessThan(1.1);
  });

  test("FULL and DECORRELATED do not collapse onto the cap", () => {
    for (const jitterType of ["FULL", "DECORRELATED"] as const) {
      const values = waits({ ...base, jitterType }, 14, 5000);
      expect(values.filter((value) => value === 30_000).length).toBeLessThan(5);
      expect(new Set(values).size).toBeGreaterThan(4000);
    }
  });

  test("the mean of each equals that of its formula", () => {
    const mean = (jitterType: JitterType, attempt: number) => {
      const values = waits({ ...base, jitterType }, attempt, 20_000);
      return values.reduce((sum, value) => sum + value, 0) / values.length;
    };
    expect(mean("FULL", 3) / 200).toBeCloseTo(1, 1);
    expect(mean("EQUAL", 3) / 300).toBeCloseTo(1, 1);
    expect(mean("PROPORTIONAL", 3) / 400).toBeCloseTo(1, 1);
    expect(mean("DECORRELATED", 1) / 200).toBeCloseTo(1, 1);
    expect(mean("DECORRELATED", 2) / 350).toBeCloseTo(1, 1);
  });
});
