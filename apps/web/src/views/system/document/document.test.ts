/** Document: shipped scenarios stay valid, whatever the controls do. */
import { type CallsDocument, checkScenario, scenarios } from "@redrive/simulator";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  guardNames,
  guardOf,
  hasGuards,
  isCalls,
  isSame,
  merged,
  middleOf,
  policyOf,
  tiersOf,
  unguarded,
  withGuard,
  withLayers,
  withMiddle,
  withPolicy,
  withServer,
} from "./document.ts";
import { strategyLabels, strategyOf, withLayerStrategy, withStrategy } from "./strategy.ts";

const shipped = Object.values(scenarios).filter(isCalls);
const anyShipped = fc.constantFrom(...shipped);
const metastable = scenarios["metastable"] as CallsDocument;

const OPTIONS = {
  retryBudget: { ratio: 0.1 },
  breaker: {},
  concurrency: { algorithm: "GRADIENT" },
  hedge: { after: "p95" },
} as const;

type Step = (document: CallsDocument) => CallsDocument;

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.integer({ min: 1, max: 3 }).map(
    (count): Step =>
      (one) =>
        withLayers(one, count),
  ),
  fc.record({ guard: fc.constantFrom(...guardNames), isOn: fc.boolean() }).map(
    ({ guard, isOn }): Step =>
      (one) =>
        withGuard(one, guard, isOn ? OPTIONS[guard] : undefined),
  ),
  fc.record({ field: fc.constantFrom("initialDelayMs", "maxDelayMs"), ms: fc.nat(60_000) }).map(
    ({ field, ms }): Step =>
      (one) =>
        withPolicy(one, 0, { [field]: ms }),
  ),
  fc.integer({ min: 100, max: 60_000 }).map(
    (ms): Step =>
      (one) =>
        withPolicy(one, 0, { attemptTimeoutMs: ms }),
  ),
  fc.constantFrom(...Object.keys(strategyLabels)).map(
    (name): Step =>
      (one) =>
        withLayerStrategy(one, 0, name),
  ),
  fc
    .record({ capacityPerSecond: fc.option(fc.integer({ min: 1, max: 9999 }), { nil: undefined }) })
    .map(
      (change): Step =>
        (one) =>
          withServer(one, change),
    ),
);

describe("the controls", () => {
  test("keep a scenario valid after any changes in any order", () => {
    fc.assert(
      fc.property(anyShipped, fc.array(anyStep, { maxLength: 8 }), (document, steps) => {
        const changed = steps.reduce<CallsDocument>((one, step) => step(one), document);
        expect(checkScenario(changed)).toEqual([]);
      }),
    );
  });

  test("undo their changes: a guard on and off, a layer added and removed", () => {
    for (const guard of guardNames) {
      const on = withGuard(metastable, guard, OPTIONS[guard]);
      expect(guardOf(on, guard)).toEqual(OPTIONS[guard]);
      expect(hasGuards(on)).toBe(true);
      expect(isSame(withGuard(on, guard, undefined), metastable)).toBe(true);
      expect(isSame(unguarded(on), metastable)).toBe(true);
    }
    expect(isSame(withLayers(withLayers(metastable, 3), 1), metastable)).toBe(true);
  });

  test("change a guard on the layers that have it, and add it to the right layers", () => {
    const ladder = scenarios["ladder-4-concurrency"] as CallsDocument;
    const limited = withGuard(ladder, "concurrency", { algorithm: "AIMD" });
    expect(tiersOf(limited).map(({ destination }) => destination?.concurrency)).toEqual([
      undefined,
      { algorithm: "AIMD" },
    ]);
    const nested = withGuard(withLayers(metastable, 2), "retryBudget", { ratio: 0.2 });
    expect(tiersOf(nested).map(({ destination }) => destination?.retryBudget)).toEqual([
      { ratio: 0.2 },
      { ratio: 0.2 },
    ]);
  });

  test("keep a fault on its layer", () => {
    const atFirst = merged(metastable, {
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 1000, tier: 0 }],
    });
    const nested = withLayers(atFirst, 2);
    expect(nested.timeline?.[0]?.tier).toBe(1);
    expect(withLayers(nested, 1).timeline?.[0]?.tier).toBe(0);
  });
});

test("a strategy can be set and read back", () => {
  for (const name of Object.keys(strategyLabels)) {
    expect(strategyOf(withStrategy(policyOf(metastable, 0), name))).toBe(name);
  }
  expect(strategyOf({ delaysMs: [1, 2] })).toBe("");
  expect(strategyOf({ backoff: "LINEAR" })).toBe("");
});

test("the middle of a duration moves and its kind stays", () => {
  const durations = [
    5,
    { kind: "FIXED", ms: 5 },
    { kind: "UNIFORM", minMs: 2, maxMs: 8 },
    { kind: "EXPONENTIAL", meanMs: 5 },
    { kind: "NORMAL", meanMs: 5, sdMs: 1 },
    { kind: "LOGNORMAL", medianMs: 5, sigma: 1 },
  ] as const;
  for (const duration of durations) {
    expect(middleOf(duration)).toBe(5);
    expect(middleOf(withMiddle(duration, 1))).toBe(1);
    expect(
      checkScenario({ ...metastable, tiers: [{ server: { latency: withMiddle(duration, 1) } }] }),
    ).toEqual([]);
  }
  expect(withMiddle(undefined, 7)).toBe(7);
});
