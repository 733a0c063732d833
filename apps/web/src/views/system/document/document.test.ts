/** Document: whatever the controls do to a scenario that ships, it stays a legal one. */
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
  test("leave a legal scenario, whatever is moved in whatever order", () => {
    fc.assert(
      fc.property(anyShipped, fc.array(anyStep, { maxLength: 8 }), (document, steps) => {
        const changed = steps.reduce<CallsDocument>((one, step) => step(one), document);
        expect(checkScenario(changed)).toEqual([]);
      }),
    );
  });

  test("undo what they did: a guard on and off, a layer more and less", () => {
    for (const guard of guardNames) {
      const on = withGuard(metastable, guard, OPTIONS[guard]);
      expect(guardOf(on, guard)).toEqual(OPTIONS[guard]);
      expect(hasGuards(on)).toBe(true);
      expect(isSame(withGuard(on, guard, undefined), metastable)).toBe(true);
      expect(isSame(unguarded(on), metastable)).toBe(true);
    }
    expect(isSame(withLayers(withLayers(metastable, 3), 1), metastable)).toBe(true);
  });

  test("change a guard where it is on, and put it where it belongs where it was off", () => {
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

  test("keep trouble at the layer it is written for", () => {
    const atFirst = merged(metastable, {
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 1000, tier: 0 }],
    });
    const nested = withLayers(atFirst, 2);
    expect(nested.timeline?.[0]?.tier).toBe(1);
    expect(withLayers(nested, 1).timeline?.[0]?.tier).toBe(0);
  });
});

test("a strategy is read back as the one that was set", () => {
  for (const name of Object.keys(strategyLabels)) {
    expect(strategyOf(withStrategy(policyOf(metastable, 0), name))).toBe(name);
  }
  expect(strategyOf({ delaysMs: [1, 2] })).toBe("");
  expect(strategyOf({ backoff: "LINEAR" })).toBe("");
});

test("the middle of a span moves and its kind stays", () => {
  const spans = [
    5,
    { kind: "FIXED", ms: 5 },
    { kind: "UNIFORM", minMs: 2, maxMs: 8 },
    { kind: "EXPONENTIAL", meanMs: 5 },
    { kind: "NORMAL", meanMs: 5, sdMs: 1 },
    { kind: "LOGNORMAL", medianMs: 5, sigma: 1 },
  ] as const;
  for (const span of spans) {
    expect(middleOf(span)).toBe(5);
    expect(middleOf(withMiddle(span, 1))).toBe(1);
    expect(
      checkScenario({ ...metastable, tiers: [{ server: { latency: withMiddle(span, 1) } }] }),
    ).toEqual([]);
  }
  expect(withMiddle(undefined, 7)).toBe(7);
});
